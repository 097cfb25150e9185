"""LIBLINEAR's problems, by their numbers after ``-s``: the only list, read without NumPy.

`objectives.problems` adds what kernels call the losses.
"""

from dataclasses import dataclass

_L2_SVR = "squared epsilon-insensitive"
_SQUARED = ("squared hinge", _L2_SVR)


@dataclass(frozen=True)
class SolverType:
    """One of LIBLINEAR's problems."""

    number: int  # after -s
    name: str  # LIBLINEAR's, as in model files
    loss: str  # its name for people
    regression: bool = False
    one_class: bool = False  # whether it is the one-class SVM, which knows no labels
    l1: bool = False  # whether the sum of |w_j| takes the place of 1/2 w'w
    primal: bool = False  # whether LIBLINEAR solves the primal problem; else the dual

    @property
    def classifies(self) -> bool:
        """Whether labels are classes: neither a regression nor the one-class SVM."""
        return not (self.regression or self.one_class)

    @property
    def smooth(self) -> bool:
        """Whether the loss has a derivative, as Newton's method needs."""
        return self.loss in ("logistic", *_SQUARED)

    @property
    def bounded(self) -> bool:
        """Whether C_i bounds the size of alpha_i."""
        return self.loss not in _SQUARED


CRAMMER_SINGER, ONE_CLASS = 4, 21
SOLVER_TYPES = {
    solver.number: solver
    for solver in (
        SolverType(0, "L2R_LR", "logistic", primal=True),
        SolverType(1, "L2R_L2LOSS_SVC_DUAL", "squared hinge"),
        SolverType(2, "L2R_L2LOSS_SVC", "squared hinge", primal=True),
        SolverType(3, "L2R_L1LOSS_SVC_DUAL", "hinge"),
        SolverType(CRAMMER_SINGER, "MCSVM_CS", "Crammer and Singer"),
        SolverType(5, "L1R_L2LOSS_SVC", "squared hinge", l1=True, primal=True),
        SolverType(6, "L1R_LR", "logistic", l1=True, primal=True),
        SolverType(7, "L2R_LR_DUAL", "logistic"),
        SolverType(11, "L2R_L2LOSS_SVR", _L2_SVR, regression=True, primal=True),
        SolverType(12, "L2R_L2LOSS_SVR_DUAL", _L2_SVR, regression=True),
        SolverType(13, "L2R_L1LOSS_SVR_DUAL", "epsilon-insensitive", regression=True),
        SolverType(ONE_CLASS, "ONECLASS_SVM", "one-class", one_class=True),
    )
}
SOLVERS_BY_NAME = {solver.name: solver for solver in SOLVER_TYPES.values()}
