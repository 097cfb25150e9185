"""Decision values of logistic regression as probabilities."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def probabilities(decisions: Floats, n_classes: int) -> Floats:
    """Return P(class | row), shape (n_rows, n_classes), as LIBLINEAR's `predict_probability`."""
    with np.errstate(over="ignore"):  # exp of a large -d is inf, and 1 / (1 + inf) is right
        shares: Floats = 1.0 / (1.0 + np.exp(-decisions))
    if n_classes == 2:
        return np.column_stack([shares[:, 0], 1.0 - shares[:, 0]])
    totals = shares.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # all shares underflowed: nan, as there
        normalised: Floats = shares / totals
    return normalised
