"""The table that training prints: a line for each outer iteration."""

import textwrap

from blocklinear.events import OuterIteration

COLUMNS = (
    ("outer", "outer iteration: a pass over all blocks, or over those that a warm start needs"),
    ("seconds", "since training began"),
    ("load", "seconds that reading and decoding blocks took, in a thread of their own"),
    ("wait", "seconds that training waited for blocks"),
    ("solve", "seconds that training worked on blocks"),
    ("primal", "primal objective P(w) of the model; an estimate, until the gap has a *"),
    ("dual", "dual objective D(alpha); no model has a smaller P(w)"),
    ("gap", "(primal - dual) / primal; *: certified by a pass over all rows, else an estimate"),
    (
        "violation",
        "largest projected gradient less the smallest, as LIBLINEAR's -e; for regression "
        "the sum of their sizes, divided by the first such sum",
    ),
    ("SV", "support vectors: rows whose alpha is not 0"),
    ("accuracy, mse", "accuracy or mean squared error on the rows of --eval"),
)
"""The columns of the table, each with its meaning."""
_NAME_WIDTH = 15
COLUMNS_HELP = "\n".join(
    line
    for name, meaning in COLUMNS
    for line in textwrap.wrap(
        meaning, 76, initial_indent=name.ljust(_NAME_WIDTH), subsequent_indent=" " * _NAME_WIDTH
    )
)
"""The same as lines of up to 76 characters."""
SEVERAL_MODELS = (
    "Of several models (classes, C, folds), primal and dual are sums over all of them; gap and "
    "violation the largest, and SV the sum, of those that have not converged."
)


def header(event: OuterIteration) -> str:
    """Return the line above the first outer iteration."""
    names = (
        "outer  seconds     load     wait    solve           primal             dual"
        "       gap  violation        SV"
    )
    if event.accuracy is not None:
        return f"{names}  accuracy"
    return names if event.mean_squared_error is None else f"{names}  mse"


def line(event: OuterIteration) -> str:
    """Return the line of an outer iteration."""
    mark = "*" if event.certified else " "
    score = event.accuracy if event.accuracy is not None else event.mean_squared_error
    return (
        f"{event.outer:5d} {event.seconds:8.2f} {event.load_s:8.2f} {event.wait_s:8.2f} "
        f"{event.solve_s:8.2f} {event.primal:16.9g} {event.dual:16.9g} {event.gap:9.2e}{mark} "
        f"{event.violation:9.2e} {event.n_sv:9d}" + ("" if score is None else f" {score:9.6g}")
    )
