import numpy as np
import pytest

from blocklinear.model.linear import LinearModel
from blocklinear.model.parameters import expected_columns


@pytest.fixture
def make_model():
    """A factory of small random models; keyword arguments replace its choices."""

    def make(n_features=5, labels=(1.0, -1.0), solver="L2R_L1LOSS_SVC_DUAL", bias=-1.0, **fields):
        rng = np.random.default_rng(7)
        columns = expected_columns(solver, len(labels))
        bias_weights = rng.normal(size=columns) if bias >= 0 else np.zeros(columns)
        parts = {"weights": rng.normal(size=(n_features, columns)), "bias_weights": bias_weights}
        return LinearModel(**(parts | fields), bias=bias, labels=labels, solver=solver)

    return make


@pytest.fixture
def same():
    """Whether two models agree to the last bit."""

    def compare(a, b, metadata=True):
        names = ("bias", "labels", "solver", "rho", "index_base") + ("metadata",) * metadata
        return (
            all(getattr(a, name) == getattr(b, name) for name in names)
            and a.weights.shape == b.weights.shape
            and a.weights.tobytes() == b.weights.tobytes()
            and a.bias_weights.tobytes() == b.bias_weights.tobytes()
        )

    return compare
