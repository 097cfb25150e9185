import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _wrapping_integers():
    """With NUMBA_DISABLE_JIT=1 NumPy warns where the kernels mean integers to wrap around."""
    with np.errstate(over="ignore"):
        yield
