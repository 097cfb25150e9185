"""The outer loop: load a group, run dual coordinate descent on it, go on (Yu, Algorithms 1-2)."""

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blocklinear import __version__
from blocklinear.errors import InputError, storage_errors
from blocklinear.events import Listener, OuterIteration, Warned, ignore
from blocklinear.kernels import dual as kernels
from blocklinear.memory import anonymous_bytes
from blocklinear.model.linear import LinearModel
from blocklinear.options import TrainOptions
from blocklinear.store.files import Lock
from blocklinear.store.groups import Group
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.store import BlockStore
from blocklinear.training.budget import plan_memory
from blocklinear.training.certificate import Certificate, certify, relative_gap
from blocklinear.training.duals import Duals
from blocklinear.training.newton import Newton, Point
from blocklinear.training.problems import BinaryProblem, binary_problem
from blocklinear.training.schedule import row_order, visits

NEWTON_AFTER = 300
"""Outer iterations of coordinate descent before Newton steps, LIBLINEAR's limit for -s 1."""
AVERAGED_POINTS = 8
"""The running average of w takes at least so many points of an outer iteration."""


@dataclass
class _Tally:
    """What one outer iteration measures."""

    load_s: float = 0.0
    wait_s: float = 0.0
    solve_s: float = 0.0
    bytes_read: int = 0


class _Run:
    """The state of one training run: w, its average, and alpha."""

    def __init__(
        self, store: BlockStore, options: TrainOptions, folder: Path, listener: Listener
    ) -> None:
        manifest = store.manifest
        self.store, self.options, self.listener = store, options, listener
        self.problem: BinaryProblem = binary_problem(manifest, options)
        self.memory = plan_memory(manifest, options)
        self.bias = max(options.bias, 0.0)
        self.weights = np.zeros((manifest.n_features + 1, 1))  # (n_features + 1, models)
        self.w = self.weights[:, 0]
        self.average = np.zeros_like(self.w)
        self.duals = Duals(folder, manifest)
        self.started = time.perf_counter()
        self.outer = 0

    def visits(self, outer: int) -> list[tuple[int, ...]]:
        return visits(self.options.seed, outer, len(self.store.manifest.blocks), self.memory.group)

    def iterate(self, loader: GroupLoader) -> OuterIteration:
        """Run one outer iteration."""
        self.outer += 1
        todo = self.visits(self.outer)
        tally = _Tally()
        touch = np.array([-np.inf, np.inf, 0.0])
        terms = np.zeros(3)
        points = -(-AVERAGED_POINTS // len(todo))
        self.average[:] = 0.0
        for loaded in loader.stream(todo):
            started = time.perf_counter()
            self._visit(loaded.group, points, touch, terms)
            tally.solve_s += time.perf_counter() - started
            tally.load_s += loaded.load_s
            tally.wait_s += loaded.wait_s
            tally.bytes_read += loaded.group.bytes_read if loaded.load_s else 0
        self.average /= points * len(todo)
        self.duals.commit()
        return self._report(tally, touch, terms)

    def _visit(self, group: Group, points: int, touch: np.ndarray, terms: np.ndarray) -> None:
        """Work on one group; its first epoch measures, its last feeds the average."""
        options, problem = self.options, self.problem
        y, alpha = problem.signs(group.labels), self.duals.read(group.blocks)
        order, later = np.empty(group.n_rows, np.int64), np.zeros(3)
        for epoch in range(options.epochs):
            row_order(options.seed, self.outer, epoch, group.blocks, order)
            last = epoch == options.epochs - 1
            for part in np.array_split(order, points if last else 1):
                kernels.dcd_epoch(
                    group.indptr, group.indices, group.values, y, group.sq_norm, part,
                    problem.upper, problem.diag, problem.cost, self.bias, alpha, self.w,
                    touch if epoch == 0 else later,
                )  # fmt: skip
                if last:
                    self.average += self.w
        self.duals.write(group.blocks, alpha)
        kernels.add_dual_terms(y, problem.diag, alpha, terms)

    def _report(self, tally: _Tally, touch: np.ndarray, terms: np.ndarray) -> OuterIteration:
        norm = kernels.squared_norm(self.w)
        dual = float(terms[kernels.SUM_ALPHA] - 0.5 * norm - 0.5 * terms[kernels.SUM_SQUARES])
        primal = float(0.5 * norm + touch[kernels.LOSS])
        _check_finite(primal, dual)
        violation = max(touch[kernels.PG_MAX], 0.0) - min(touch[kernels.PG_MIN], 0.0)
        return OuterIteration(
            outer=self.outer,
            seconds=time.perf_counter() - self.started,
            load_s=tally.load_s,
            wait_s=tally.wait_s,
            solve_s=tally.solve_s,
            bytes_read=tally.bytes_read,
            dual=dual,
            primal=primal,
            gap=relative_gap(primal, dual),
            certified=False,
            violation=float(violation),
            n_sv=int(terms[kernels.N_SUPPORT]),
            n_models=1,
            rss_bytes=anonymous_bytes(),
        )

    def stepped(self, point: Point) -> OuterIteration:
        """Return the report of a Newton step; its certificate needs no further pass."""
        certificate = point.certificate
        return OuterIteration(
            outer=self.outer,
            seconds=time.perf_counter() - self.started,
            load_s=0.0,
            wait_s=0.0,
            solve_s=0.0,
            bytes_read=0,
            dual=certificate.dual,
            primal=certificate.primal,
            gap=certificate.gap,
            certified=True,
            violation=float(np.abs(point.gradient).max(initial=0.0)),
            n_sv=point.n_sv,
            n_models=1,
            rss_bytes=anonymous_bytes(),
        )

    def certify(self, loader: GroupLoader) -> Certificate:
        """Pass over the data once more, and put the better candidate's place in the certificate."""
        stream = loader.stream(self.visits(self.outer + 1))
        certificate, _ = certify(stream, self.problem, self.duals, self.bias, self.w, self.average)
        _check_finite(certificate.primal, certificate.dual)
        return certificate

    def model(self, certificate: Certificate, stopped: str) -> LinearModel:
        """Return the certified candidate as a model."""
        options, manifest = self.options, self.store.manifest
        chosen = self.average if certificate.average else self.w
        return LinearModel(
            weights=chosen[:-1, None].copy(),
            bias_weights=chosen[-1:].copy(),
            bias=options.bias if options.bias >= 0 else -1.0,
            labels=self.problem.labels,
            solver=self.problem.solver,
            index_base=manifest.index_base,
            metadata={
                "C": options.cost,
                "class_weights": [list(pair) for pair in options.class_weights],
                "certificate": certificate.to_dict(),
                "outer_iterations": self.outer,
                "stopped": stopped,
                "seed": options.seed,
                "hash_bits": manifest.hash_bits,
                "normalize": manifest.normalize,
                "store": manifest.fingerprint,
                "written_by": __version__,
            },
        )


def _check_finite(primal: float, dual: float) -> None:
    if not (math.isfinite(primal) and math.isfinite(dual)):
        raise InputError(
            "the numbers overflowed: values or C are too large", "scale the data, or lower C"
        )


class _Stopping:
    """Decides when to certify and when to stop.

    The gap estimated from first-touch margins mixes many w: it is noisy, and mostly too large.
    `_ratio` is how much smaller the last certified gap was; the next certificate is tried when the
    estimate, so scaled, passes, but after a failure not before another 1/16 of the iterations, so
    that certificates in vain stay cheap however wrong the estimate is.
    """

    def __init__(self, options: TrainOptions) -> None:
        self._options = options
        self._ratio = 0.5
        self._not_before = 0

    def wants_certificate(self, report: OuterIteration) -> bool:
        gap, tolerance = self._options.gap, self._options.tolerance
        if tolerance is not None and report.violation > tolerance:
            return False
        if report.outer < self._not_before:
            return False
        return gap is None or self._ratio * report.gap <= gap

    @property
    def by_gap_alone(self) -> bool:
        """Whether nothing but the gap was asked for; violations are a matter of the dual."""
        return self._options.tolerance is None

    def holds(self, report: OuterIteration, certificate: Certificate) -> bool:
        """Say whether the certified gap is small enough; learn from it when it is not."""
        gap, tolerance = self._options.gap, self._options.tolerance
        if tolerance is not None and report.violation > tolerance:
            return False
        if gap is None or certificate.gap <= gap:
            return True
        self._ratio = min(max(certificate.gap / report.gap, 0.01), 1.0)
        self._not_before = report.outer + 1 + report.outer // 16
        return False

    def exhausted(self, report: OuterIteration) -> str:
        """Return why training must end unconverged, or the empty string."""
        if report.outer >= self._options.max_outer:
            return f"{report.outer} outer iterations"
        if report.seconds >= self._options.time_limit_s:
            return f"{self._options.time_limit_s:g} seconds"
        return ""


def train(
    store: BlockStore, options: TrainOptions | None = None, listener: Listener = ignore
) -> LinearModel:
    """Train a linear model on a store, out of core, to a certified optimum.

    Parameters
    ----------
    store : BlockStore
    options : TrainOptions
    listener : callable
        Told an `OuterIteration` each time all blocks were visited, and `Warned`.

    Returns
    -------
    LinearModel
        ``metadata["certificate"]`` bounds its distance from the optimum, however training ended.

    Raises
    ------
    InputError
        If the labels do not fit the solver, or the numbers overflow.
    MemoryBudgetError
        If the budget is too small.
    BusyError
        If another process works on the store.
    DamagedError, StorageError
    """
    options = options or TrainOptions()
    folder = store.folder / "runs" / options.run
    with Lock(store.folder / "lock"):
        with storage_errors(folder, "create"):
            folder.mkdir(parents=True, exist_ok=True)
        run = _Run(store, options, folder, listener)
        for label in dict(options.class_weights):
            if label not in run.problem.labels:
                listener(Warned(f"class {label:g} has a weight, but no rows"))
        memory = run.memory
        with GroupLoader(store, memory.group, options.threads, memory.pin_bytes) as loader:
            return _train(run, loader)


def _train(run: _Run, loader: GroupLoader) -> LinearModel:
    stopping = _Stopping(run.options)
    while True:
        report = run.iterate(loader)
        ending = stopping.exhausted(report)
        if not ending and not stopping.wants_certificate(report):
            run.listener(report)
            if report.outer >= NEWTON_AFTER and run.memory.newton and stopping.by_gap_alone:
                return _train_on(run, loader, stopping)
            continue
        certificate = run.certify(loader)
        converged = stopping.holds(report, certificate)
        run.listener(_certified(run, report, certificate))
        if converged or ending:
            return _finish(run, certificate, "" if converged else ending)


def _train_on(run: _Run, loader: GroupLoader, stopping: "_Stopping") -> LinearModel:
    """Go on with Newton steps on the primal, as LIBLINEAR does."""
    run.listener(
        Warned(
            f"not converged after {run.outer} outer iterations of coordinate descent: "
            "going on with Newton steps on the primal"
        )
    )
    descended = run.outer
    newton = Newton(
        lambda: loader.stream(run.visits(run.outer + 1)), run.problem, run.duals, run.bias
    )
    point: Point | None = newton.at(run.w.copy())
    while point is not None:
        run.outer, run.w[:], last = descended + newton.n_passes, point.w, point
        report = run.stepped(point)
        run.listener(report)
        converged = stopping.holds(report, point.certificate)
        ending = stopping.exhausted(report)
        if converged or ending:
            return _finish(run, point.certificate, "" if converged else ending)
        left = run.options.max_outer - run.outer
        point = newton.step(point, min(left, len(run.w) + 50))
    return _finish(run, last.certificate, f"{run.outer} outer iterations, where rounding ends it")


def _finish(run: _Run, certificate: Certificate, ending: str) -> LinearModel:
    """Return the model; say so if it is not as good as was asked for."""
    if ending:
        run.listener(
            Warned(
                f"not converged after {ending}: the gap is {certificate.gap:.3g}; "
                "the model is the best so far"
            )
        )
    return run.model(certificate, ending or "converged")


def _certified(run: _Run, report: OuterIteration, certificate: Certificate) -> OuterIteration:
    """Return the report with the estimates replaced by what was proven."""
    proven = {
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.gap,
        "certified": True,
        "seconds": time.perf_counter() - run.started,
    }
    return OuterIteration(**{**vars(report), **proven})
