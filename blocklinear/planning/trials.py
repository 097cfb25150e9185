"""Trainings on samples of growing size, and what they say of all rows.

What decides is counted, not timed: the entries that block steps and passes over the working set
work on, and certificates. Only what an entry takes is timed, in the largest training.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from blocklinear.errors import InputError
from blocklinear.events import Event, OuterIteration, RunEnded
from blocklinear.options import TrainOptions
from blocklinear.planning.growth import Range
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.store import BlockStore
from blocklinear.training import train

_LEAST_EXPONENT, _MOST_EXPONENT, _USUAL_EXPONENT = -0.1, 0.5, 0.1
"""Work on an entry grows as a power of the number of entries: the bounds of a fitted exponent, and
the exponent where there are too few trainings to fit one."""
_EXPONENT_ERROR = 0.1
_REPEATS = 2
_LEAST_LOADERS, _PASSES_S = 2, 0.3
"""The best of three passes of 5 ms differed by a factor of 1.5 from one time to the next."""
_TIME_ERROR = 1.3
"""By what factor an entry may take more or less time than in the sample."""


@dataclass(frozen=True)
class Trial:
    """A training on a part of a sample."""

    nnz: int  # of the part
    entries: int  # worked on, each as often as it was
    certificates: int  # passes that tried to certify
    outer: int  # outer iterations
    solve_s: float
    certify_s: float
    seconds: float  # in all, with reading, checkpoints and the model
    converged: bool


def run_trials(store: BlockStore, options: TrainOptions, limit_s: float) -> list[Trial]:
    """Train on an eighth, a quarter, a half and all blocks of a sample, smallest first.

    A part that has no rows, or lacks a class, is left out. A training that does not converge within
    `limit_s` is the last.

    Errors are those of `train`.
    """
    n, trials = len(store.manifest.blocks), list[Trial]()
    sizes = sorted({max(n >> k, 1) for k in range(4)})
    _train(store, replace(options, max_outer=1), sizes[-1], limit_s)  # loads what is compiled
    for blocks in sizes:
        try:
            trials.append(_train(store, options, blocks, limit_s))
        except InputError:
            if blocks == n:
                raise
            continue
        if not trials[-1].converged:
            return trials
    for _ in range(_REPEATS):  # other processes slow one down: the least seconds count
        again = _train(store, options, sizes[-1], limit_s)
        if again.converged and again.seconds < trials[-1].seconds:
            trials[-1] = again
    return trials


def _train(store: BlockStore, options: TrainOptions, blocks: int, limit_s: float) -> Trial:
    iterations, ends = list[OuterIteration](), list[RunEnded]()

    def note(event: Event) -> None:
        if isinstance(event, OuterIteration):
            iterations.append(event)
        elif isinstance(event, RunEnded):
            ends.append(event)

    chosen = replace(
        options, sample_blocks=blocks, run=f"plan-{blocks}", restart=True, time_limit_s=limit_s
    )
    started = time.perf_counter()
    train(store, chosen, note)
    seconds = time.perf_counter() - started
    m = store.manifest
    nnz = max(m.nnz * blocks // len(m.blocks), 1)
    (end,) = ends
    return Trial(
        nnz=nnz,
        # methods that count no entries pass over all of them in each outer iteration
        entries=sum(found.entries for found in iterations) or nnz * len(iterations),
        certificates=sum(found.certificates for found in iterations),
        outer=len(iterations),
        solve_s=sum(found.solve_s for found in iterations),
        certify_s=sum(found.certify_s for found in iterations),
        seconds=seconds,
        converged=end.stopped == "converged",
    )


@dataclass(frozen=True)
class Trend:
    """What trainings on parts of a sample say of one on more rows."""

    last: Trial  # the largest that converged
    exponent: float  # work on an entry grows as nnz to this power

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> "Trend | None":
        """Fit it to trials; None if none converged."""
        good = [trial for trial in trials if trial.converged]
        if not good:
            return None
        exponent = _USUAL_EXPONENT
        if len(good) > 2:
            x = np.log([float(trial.nnz) for trial in good])
            y = np.log([trial.entries / trial.nnz for trial in good])
            x -= x.mean()
            exponent = float((x * y).sum() / (x * x).sum())
        return cls(good[-1], min(max(exponent, _LEAST_EXPONENT), _MOST_EXPONENT))

    def seconds(self, nnz: float, slower: float) -> Range:
        """Return the seconds of training on so many entries, of which those of the sample are read.

        Parameters
        ----------
        slower : float            what an entry takes then, over what it took in the sample
        """
        last = self.last
        times = max(nnz / last.nnz, 1.0)
        fixed = max(last.seconds - last.solve_s - last.certify_s, 0.0)
        error = _TIME_ERROR if times > 1.0 else 1.1

        def found(shift: float, error: float) -> float:
            work = last.solve_s * math.pow(times, 1.0 + self.exponent + shift)
            return fixed + error * slower * (work + last.certify_s * times)

        return Range(found(-_EXPONENT_ERROR, 1 / error), found(0, 1), found(_EXPONENT_ERROR, error))


@dataclass(frozen=True)
class PassTrial:
    """What a pass over a sample takes, apart for its blocks and its entries."""

    block_s: float  # seconds for a block
    entry_s: float  # seconds for an entry in it

    @classmethod
    def run(cls, sample: BlockStore, as_split: BlockStore, threads: int) -> Self:
        """Time passes over the same rows in other blocks: the difference is due to these."""
        n_small, n_large = (len(store.manifest.blocks) for store in (sample, as_split))
        small_s = pass_seconds(sample, threads) if n_small > n_large else 0.0
        large_s = pass_seconds(as_split, threads)
        block_s = max(small_s - large_s, 0.0) / max(n_small - n_large, 1)
        entries_s = max(large_s - block_s * n_large, 0.0)
        return cls(block_s, entries_s / max(as_split.manifest.nnz, 1))

    def seconds(self, entries: float, blocks: int) -> float:
        """Return what a pass over so many entries and blocks takes."""
        return self.block_s * blocks + self.entry_s * entries


def pass_seconds(store: BlockStore, threads: int) -> float:
    """Return the seconds of loading and decoding all blocks, one ahead: the best of several times.

    Each loader passes over them twice: at first the system clears the memory that is decoded to.
    Small stores are passed over until `_PASSES_S` are over.
    """
    groups, best = [(b,) for b in range(len(store.manifest.blocks))], float("inf")
    n_loaders, began = 0, time.perf_counter()
    while n_loaders < _LEAST_LOADERS or time.perf_counter() - began < _PASSES_S:
        n_loaders += 1
        with GroupLoader(store, 1, threads) as loader:
            for _ in range(min(len(groups), 2)):  # it keeps an only block
                started = time.perf_counter()
                for _ in loader.stream(groups):
                    pass
                best = min(best, time.perf_counter() - started)
    return best
