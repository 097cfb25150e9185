"""What a run reported, for the callers of the library: it draws itself."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blocklinear.numerals import counted
from blocklinear.report import records
from blocklinear.report.facts import history_html
from blocklinear.report.plots import figure_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass
class RunHistory(records.RunRecords):
    """What the last run of a log reported, or what training reported to its caller.

    Attributes
    ----------
    name, folder : str
        Of the file.
    events : list of dict
        Outer iterations in order, as the run log has them.
    started, ended, validated, warm_start : dict or None
        The other lines of the run log; `validated` is what a cross-validation found.
    warnings : list of str
    seconds : float
        That training took, or has taken so far.
    peak_bytes : int
        The largest resident memory that was reported; 0 if none was.
    """

    def __repr__(self) -> str:
        return f"<RunHistory of {counted(len(self.events), 'outer iteration')}>"

    def plot(self, quantity: str = "gap", against: str | Sequence[str] = ("seconds",)) -> "Figure":
        """Draw how the run came nearer to the optimum.

        Parameters
        ----------
        quantity : {"gap", "primal", "violation"}
            The relative duality gap; by which fraction the primal objective exceeds the lowest that
            was proven; or the violation.
        against : {"seconds", "passes", "bytes"}, or several
            What it is drawn against, a column each.

        Returns
        -------
        matplotlib.figure.Figure
            Filled markers are proven gaps, the others estimates. Below are scores on held-out rows,
            if there are any.

        Raises
        ------
        UsageError
            If matplotlib is not installed, or an argument breaks its rule.
        InputError
            If no outer iteration has a value that can be drawn.
        """
        return figure_of([self], quantity, [against] if isinstance(against, str) else against)

    def _repr_html_(self) -> str:
        return history_html(self)


def read_log(path: str | os.PathLike[str]) -> RunHistory:
    """Read the last run of a run log, also while it is written.

    A run that was resumed is one: its seconds go on where the checkpoint was. A line that a crash
    left incomplete is ignored.

    Parameters
    ----------
    path : path
        JSONL, as ``blocklinear train --log`` writes it.

    Returns
    -------
    RunHistory

    Raises
    ------
    InputError
        If it is not a run log, or its last run has no outer iteration.
    StorageError
        If it cannot be read.
    """
    return RunHistory(**vars(records.read_log(path)))
