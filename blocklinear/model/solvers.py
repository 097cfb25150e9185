"""The problems that models solve, by the names and numbers LIBLINEAR gave them."""

SOLVERS = {
    "L2R_LR": 0,
    "L2R_L2LOSS_SVC_DUAL": 1,
    "L2R_L2LOSS_SVC": 2,
    "L2R_L1LOSS_SVC_DUAL": 3,
    "MCSVM_CS": 4,
    "L1R_L2LOSS_SVC": 5,
    "L1R_LR": 6,
    "L2R_LR_DUAL": 7,
    "L2R_L2LOSS_SVR": 11,
    "L2R_L2LOSS_SVR_DUAL": 12,
    "L2R_L1LOSS_SVR_DUAL": 13,
    "ONECLASS_SVM": 21,
}
"""LIBLINEAR's names of the problems, each with its number after ``-s``."""


def expected_columns(solver: str, n_labels: int) -> int:
    """Return how many decision values a model of this kind has (1 if `solver` is no classifier).

    Parameters
    ----------
    solver : str
        A key of `SOLVERS`.
    n_labels : int

    Returns
    -------
    int
    """
    return max(n_labels, 1) if n_labels != 2 or solver == "MCSVM_CS" else 1
