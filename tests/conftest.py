import os

import numpy as np
import pytest

os.environ["SOURCE_DATE_EPOCH"] = "1767225600"  # the date of every commit: 2026-01-01


@pytest.fixture(autouse=True)
def _wrapping_integers():
    """With NUMBA_DISABLE_JIT=1 NumPy warns where the kernels mean integers to wrap around."""
    with np.errstate(over="ignore"):
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk():
    """No test of ours cuts the power: processes that are killed lose nothing without `fsync`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
