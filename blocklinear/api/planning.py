"""What a split and a training will take."""

from collections.abc import Sequence
from typing import Any

from blocklinear.api.calling import options_of, takes
from blocklinear.arguments import Path, check_options
from blocklinear.options import SplitOptions, TrainOptions
from blocklinear.planning import plan as planning
from blocklinear.planning.report import PlanReport
from blocklinear.store.store import BlockStore


@takes(TrainOptions)
def plan(
    source: Path | Sequence[Path] | BlockStore,
    options: TrainOptions | None = None,
    *,
    split: SplitOptions | None = None,
    workers: int = 1,
    recalibrate: bool = False,
    **settings: Any,
) -> PlanReport:
    """Estimate what a split and a training will take, from a sample, in some seconds.

    Parameters
    ----------
    source : path, sequence of paths, or BlockStore
        LIBSVM text, or a store; also URLs.
    options : TrainOptions
        What is to be trained; its memory and threads are those of the split, too.
    split : SplitOptions
        How text is to be split.
    workers : int
        Estimate for so many machines, too.
    recalibrate : bool
        Measure the speed of this machine again; it is kept in the cache of the user.
    **settings
        Fields of `TrainOptions`; they replace those of `options`. ``memory`` is the budget as a
        size.

    Returns
    -------
    PlanReport

    Raises
    ------
    WrongTypeError
        If an argument is of the wrong type, or an option is unknown.
    UsageError
        If there are no inputs, one is a stream, or `workers` is below 1.
    InputError
        If the text is malformed.
    DamagedError, StorageError

    Examples
    --------
    >>> import blocklinear
    >>> report = blocklinear.plan("rows.svm", solver=3, C=1.0, memory="512M")
    >>> report.rows.likely, report.features.likely
    (216, 13.0)
    """
    chosen = options_of(TrainOptions, options, settings, plan)
    if split is not None:
        check_options(split, SplitOptions)
    return planning.plan(source, chosen, split, workers, bool(recalibrate))
