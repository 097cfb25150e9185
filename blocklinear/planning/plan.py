"""Estimate what a split and a training will take."""

import math
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from blocklinear.arguments import Path as AnyPath
from blocklinear.arguments import check_count, path_list
from blocklinear.errors import (
    DamagedError,
    InputError,
    LabelError,
    MemoryBudgetError,
    StorageError,
    UsageError,
)
from blocklinear.inputs.objects import MissingError
from blocklinear.inputs.urls import is_url
from blocklinear.memory import available_bytes, default_budget
from blocklinear.objectives.tasks import make_task
from blocklinear.options import SplitOptions, TrainOptions
from blocklinear.planning.growth import Range
from blocklinear.planning.machine import Machine
from blocklinear.planning.report import PlanReport
from blocklinear.planning.subject import LOOKUP_SHARE, PlanData, of_store, of_text
from blocklinear.planning.trials import PassTrial, Trend, run_trials
from blocklinear.solvers.sharing import n_columns
from blocklinear.store.contents import is_store
from blocklinear.store.files import temporary_folder
from blocklinear.store.manifest import Manifest
from blocklinear.store.store import BlockStore
from blocklinear.training.memory_plan import (
    MemoryPlan,
    model_bytes,
    plan_memory,
    plan_that_fits,
)
from blocklinear.training.parts import size_that_fits

_TRIAL_S = 4.0
_ENTRY_NS = 3.0
"""What training takes for an entry whose weight is in the fastest cache: 320 million a second on
imdb.svm, with 36,000 features (bench/README.md)."""
_PASS_ERROR = 1.25
NETWORK_BYTES_S = 1.25e9
"""Between machines: 10 GbE."""
_ROUNDS_POWER = (0.2, 0.35, 0.55)
"""N machines need N**p times the passes of one: p in simulations of CoCoA+ whose parts are drawn
anew in each round, 15 rounds for one, 24 for 4 and more than 60 for 16 small parts."""


def plan(
    source: AnyPath | Sequence[AnyPath] | BlockStore,
    train: TrainOptions | None = None,
    split_options: SplitOptions | None = None,
    workers: int = 1,
    recalibrate: bool = False,
) -> PlanReport:
    """Estimate what a split and a training will take, from a sample, in some seconds.

    See `blocklinear.plan` for arguments and errors. The memory of the split is that of `train`.
    """
    workers = check_count("workers", workers)
    options = train or TrainOptions()
    machine = Machine.known(recalibrate)
    started = time.perf_counter()
    with temporary_folder() as folder:
        store = _opened(source)
        if store is not None:
            subject = of_store(store, folder)
        else:
            assert not isinstance(source, BlockStore)
            options_of_split = split_options or SplitOptions()
            subject = of_text(path_list(source), options, options_of_split, machine, folder)
        return _estimate(subject, options, machine, workers, started)


def _opened(source: AnyPath | Sequence[AnyPath] | BlockStore) -> BlockStore | None:
    """Return the store that is meant, None if it is text."""
    if isinstance(source, BlockStore):
        return source
    if isinstance(source, str) and is_url(source):
        try:
            return BlockStore.open(source)
        except (UsageError, StorageError):
            return None  # a URL of text, or one that cannot be read, which is said then
        except DamagedError as error:
            if isinstance(error.__cause__, MissingError):  # it has no manifest
                return None
            raise
    if isinstance(source, str | os.PathLike) and (is_store(Path(source)) or Path(source).is_dir()):
        return BlockStore.open(source)
    return None


def _estimate(
    subject: PlanData, options: TrainOptions, machine: Machine, workers: int, started: float
) -> PlanReport:
    sample, notes = subject.sample, list(subject.notes)
    n_models, apart = 1, False
    trend = None
    try:
        task = make_task(sample.manifest, options)
        n_models, apart = len(task), task.separable and not task.alone
        trials = run_trials(sample, options, _TRIAL_S)
        trend = Trend.of(trials)
        if trend is None:
            notes.append(f"no training on the sample converged within {_TRIAL_S:.0f} s")
    except MemoryBudgetError as error:
        notes.append(f"training: {error.what}")
    except LabelError:
        raise
    except InputError as error:  # of all rows it is the user's, of some of them the sample's
        if subject.facts["share"] == 1.0:
            raise
        notes.append(f"training on the sample: {error.what}")
    manifest = subject.manifest_for(options.memory_bytes)
    trial = PassTrial.run(sample, subject.as_split, options.threads)
    pass_s = trial.seconds(subject.entries.likely, len(manifest.blocks))
    if subject.store_bytes.likely > available_bytes():
        pass_s = max(pass_s, subject.store_bytes.likely / machine.read_bytes_s)
    width = n_columns(n_models)
    least, advised = _memory(subject, options, width, n_models if apart else 0)
    url_bytes = subject.fetching_bytes
    plan = plan_that_fits(manifest, options, width, url_bytes=url_bytes)
    if plan is None and apart:
        with suppress(MemoryBudgetError):
            size = size_that_fits(manifest, options, n_models, others=n_models, url_bytes=url_bytes)
            plan = plan_memory(manifest, options, n_columns(size), n_models, url_bytes)
    in_memory = plan is not None and _stays(manifest, plan)
    train_s, outer = None, None
    if trend is not None:
        outer = trend.last.outer
        train_s = _training(trend, subject, options, machine, in_memory, pass_s)
        if subject.facts["share"] < 1.0:
            notes.append(f"training grows as entries^{1 + trend.exponent:.2f} in the sample")
    alpha = 8.0 * subject.rows.likely * width
    model = model_bytes(manifest) * width
    disk = Range(*(v + 2 * alpha + 2 * model for v in vars(subject.store_bytes).values()))
    read = Range.exactly(subject.input_bytes)
    stored = subject.split_s is None
    network = (subject.store_bytes if stored else read) if subject.from_url else Range.exactly(0)
    return PlanReport(
        "store" if stored else "text", subject.facts, subject.rows, subject.features,
        subject.entries, subject.store_bytes, least, advised, options.memory_bytes, in_memory,
        subject.split_s, Range(pass_s / _PASS_ERROR, pass_s, pass_s * _PASS_ERROR), train_s, outer,
        read, disk, network,
        None if workers == 1 else _distributed(subject, pass_s, train_s, outer, workers, width),
        time.perf_counter() - started, notes,
    )  # fmt: skip


def _training(
    trend: Trend,
    subject: PlanData,
    options: TrainOptions,
    machine: Machine,
    in_memory: bool,
    pass_s: float,
) -> Range:
    """Return the seconds of training on all rows."""
    sample = subject.sample.manifest
    weights = [8.0 * n for n in (sample.n_features, subject.features.likely)]
    before, after = (_ENTRY_NS + LOOKUP_SHARE * machine.lookup(n_bytes) for n_bytes in weights)
    found = trend.seconds(subject.entries.likely, max(after / before, 1.0))
    share = trend.last.nnz / max(subject.entries.likely, 1.0)
    read_s = pass_s * ((1 if in_memory else trend.last.outer) - min(share, 1.0))
    return Range(found.low + 0.5 * read_s, found.likely + read_s, found.high + 1.5 * read_s)


def _stays(manifest: Manifest, plan: MemoryPlan) -> bool:
    """Say whether all rows stay in memory, in one group or as decoded blocks."""
    entry_bytes = 12 if manifest.dtype == "float64" else 8
    return plan.group >= len(manifest.blocks) or plan.pin_bytes >= entry_bytes * manifest.nnz


def _memory(subject: PlanData, options: TrainOptions, width: int, n_apart: int) -> tuple[int, int]:
    """Return the least budget that split and training accept, and the one to be advised, in bytes.

    That is the least which keeps all rows, but at most the machine's usual one or twice the least.

    Parameters
    ----------
    width : int               columns of weights of all models together
    n_apart : int             models that may be trained one by one, where they do not fit together
    """

    def least_that(
        is_enough: Callable[[Manifest, MemoryPlan], bool], width: int, others: int = 0
    ) -> int:
        def holds(mib: int) -> bool:
            chosen = replace(options, memory_bytes=mib << 20)
            try:
                manifest = subject.manifest_for(mib << 20)
                plan = plan_memory(manifest, chosen, width, others, subject.fetching_bytes)
                return is_enough(manifest, plan)
            except MemoryBudgetError:  # of a split, too
                return False

        return bisect_left(range(1 << 24), True, lo=1, key=holds) << 20  # MiB: 16 TiB

    least = least_that(lambda manifest, plan: True, width)
    if n_apart > 1:
        least = min(least, least_that(lambda manifest, plan: True, n_columns(1), n_apart))
    ample = least_that(_stays, width)
    return least, max(least, min(ample, max(default_budget(), 2 * least)))


def _distributed(
    subject: PlanData,
    pass_s: float,
    train_s: Range | None,
    outer: int | None,
    workers: int,
    width: int,
) -> dict[str, Any]:
    """Return what changes with N machines."""
    vector = 8.0 * subject.features.likely * width
    low, likely, high = (workers**power for power in _ROUNDS_POWER)
    rounds = Range(low, likely, high).times(float(outer or 1))
    round_bytes = 2.0 * vector * workers
    round_s = 2.0 * vector * math.ceil(math.log2(max(workers, 2))) / NETWORK_BYTES_S
    times = None
    if train_s is not None:
        times = Range(
            train_s.low * low / workers + rounds.low * round_s,
            train_s.likely * likely / workers + rounds.likely * round_s,
            train_s.high * high / workers + rounds.high * round_s,
        )
    one = subject.split_s
    share = 1.0 / workers
    return {
        "workers": workers,
        "split_s": None if one is None else one.times(share),
        "pass_s": Range(pass_s / _PASS_ERROR, pass_s, pass_s * _PASS_ERROR).times(share),
        "train_s": times,
        "rounds": rounds,
        "network_bytes": Range(
            rounds.low * round_bytes, rounds.likely * round_bytes, rounds.high * round_bytes
        ),
    }
