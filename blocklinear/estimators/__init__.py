"""Estimators for scikit-learn, which train from disk (extra ``sklearn``).

Parameters are named as in scikit-learn's `LinearSVC`, `LogisticRegression`, `LinearSVR` and
`OneClassSVM`, and mean the same: the problems are LIBLINEAR's, more than two classes go one against
the rest. `fit` writes a store in a temporary folder and trains it; `fit_store` trains one that is
there, and `fit_batches` takes what does not fit in memory. `partial_fit`, which the one-class SVM
does not have, learns from a batch and forgets it.
"""

from blocklinear.estimators.classification import BlockLinearSVC, BlockLogisticRegression
from blocklinear.estimators.outliers import BlockLinearOneClassSVM
from blocklinear.estimators.regression import BlockLinearSVR
from blocklinear.estimators.validated import (
    BlockLinearSVCCV,
    BlockLinearSVRCV,
    BlockLogisticRegressionCV,
)

__all__ = [
    "BlockLinearOneClassSVM",
    "BlockLinearSVC",
    "BlockLinearSVCCV",
    "BlockLinearSVR",
    "BlockLinearSVRCV",
    "BlockLogisticRegression",
    "BlockLogisticRegressionCV",
]
