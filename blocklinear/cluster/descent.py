"""CoCoA+ in rounds, as the outer loop sees it: weights here, rows and alpha with the workers.

In a round all parts start from the same weights w. A part k works on its rows as if they were all
there are, but with s_j times the curvature in the direction of feature j, and makes a change a_k of
alpha. With w' = w + step * sum_k A_k a_k (A_k has s_i x_i of its rows as columns) the dual rises
for step = 1 if, in each direction that is moved along,

    |sum_k A_k a_k|**2 <= sum_k |A_k a_k|**2_s,         |v|**2_s = sum_j s_j v_j**2.

CoCoA+ takes s_j = K, which holds whatever the data (Ma et al., ICML 2015, Lemma 4). Here s_j
follows what was seen: rare features are moved by few parts, and those that all parts move are not
moved by all alike. Which step along the change is best is then found exactly.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.cluster import sums, worker
from blocklinear.cluster.engine import Engine
from blocklinear.cluster.job import FreeBias, Job, Round
from blocklinear.cluster.newton import DistributedNewton, Kept
from blocklinear.kernels import dual as kernels
from blocklinear.kernels.sums import dot
from blocklinear.objectives.certificate import (
    Certificate,
    Proof,
    aligned_zeros,
    column_norms,
    joined,
    relative_gaps,
)
from blocklinear.objectives.multiplier import nothing_seen
from blocklinear.solvers.pass_statistics import (
    add_stats,
    middle,
    no_stats,
    rises,
    violations,
)
from blocklinear.solvers.protocol import Estimate, Trainee
from blocklinear.solvers.proven_models import ProvenModels
from blocklinear.solvers.sharing import models_by_pass
from blocklinear.solvers.weight_vectors import FIRST, PASS
from blocklinear.solvers.working_set import MOST_PASSES, WARM_PASSES, next_passes
from blocklinear.store.manifest import Manifest
from blocklinear.training.previous import Previous
from blocklinear.training.run import Times

Floats = NDArray[np.float64]
RECENT = 0.3
"""Weight of the last round in the average of w, which is the other candidate.

Rounds overshoot by turns. Film reviews in 4 and 8 parts, the gap of w and of the average: 0.0124
and 0.0013, 0.0040 and 0.0008."""
CAUTION, REMEMBERED = 1.5, 0.5
"""Curvature assumed, to that seen in the round before, and how much of the assumption stays.

Rounds to a gap of 1e-3 (hinge loss, 64 blocks in 4, 8 and 16 parts): film reviews 16, 26, 45, with
1 for 1.5 16, 30, 53; blogs in 4 and 8 parts 11, 17. With the same for all features, K / 2 or K:
film reviews 23, 39, 72 or 27, 60 and more; blogs 15, 27 or 21, 46."""
LEAST_WORK = 1 << 16
"""Entries that a part of several works on in passes of a round, if its rows have fewer.

That takes about a millisecond, less than starting a task. Rounds to a gap of 1e-3, C = 1, 2, 3 and
8 parts of 216 rows (heart): squared hinge loss 10, 9, 24 instead of 26, 53, 180; logistic loss 8,
6, 11 instead of 7, 10, 19. Not for losses with kinks, of which nothing holds alpha inside its
bounds: 4,000 rows (covtype) in 8 parts would take 43 rounds instead of 26 with hinge loss."""


class DistributedDescent(Trainee):
    """The weights of a run and what is known of its alpha; the workers do the rest.

    ``len()`` is the number of models.

    Attributes
    ----------
    bias : float              value of the bias feature, 0 for none
    outer : int               rounds done
    spent : Times             by all workers in the last of them
    bytes_sent : int          in it, of changes of weights
    unsaved : bool            whether the last checkpoint has not what workers are to read
    """

    def __init__(self, job: Job, manifest: Manifest, engine: Engine) -> None:
        self.task, n = job.task, manifest.n_features + 1
        self._job, self._manifest, self._engine = job, manifest, engine
        self._n_rows = manifest.n_rows
        self.bias = max(job.options.bias, 0.0)
        self.outer, self.unsaved = 0, True
        self.spent, self.bytes_sent = Times(), 0
        self._n, self._several = n, job.n_parts > 1
        self._curvature = np.full((n, 1), float(job.n_parts)) if self._several else np.zeros((0, 1))
        self._entries = np.zeros(3)
        self._proven = ProvenModels(models_by_pass(len(self.task)))
        self._allocate()
        self.first = 0  # number of the files of what the first round starts from
        self._written: list[int] = []  # models whose alpha the last round has written
        self._earlier_rounds: list[Kept] = []  # last rounds of dropped models
        self._taken = np.zeros(0)  # the step along the change of each
        of_many = (0, 0) if self.task.alone else (n, len(self.task))
        self._final = np.zeros(of_many)  # as certified last
        self._adopted = False
        self._passes = np.ones(1)
        self._left: list[Floats] | None = None  # P - D of the candidates, as sampled
        self._futures: dict[str, Any] = {}  # of what workers have read from the last checkpoint

    def to_newton(
        self, enough_products: float, certificate: Certificate | None
    ) -> DistributedNewton:
        """Return Newton's method, which goes on from here."""
        kept = [*self._earlier_rounds, (self.outer, self._written, self._taken.tolist())]
        newton = DistributedNewton(
            self._job, self._manifest, self._engine, self._job.options.for_newton(),
            enough_products, self.outer, self.first, kept,
        )  # fmt: skip
        if certificate is not None:
            newton.go_on_from(self, certificate, () if self.task.alone else self._proven.solved)
        return newton

    def _allocate(self) -> None:
        """Make the arrays of the weight vectors that are trained, all zeros."""
        n, widths = self._n, [len(some) for some in self._proven.trained]
        self.W = [aligned_zeros(n, width) for width in widths]
        self.average = [np.zeros((n, width)) for width in widths] if self._several else []
        self._terms = [np.zeros((width, kernels.N_TERMS)) for width in widths]
        self._stats = [np.zeros((3, width, kernels.N_STATS)) for width in widths]
        self._gain = [np.zeros(width) for width in widths]
        self._first = [np.zeros(width) for width in widths]
        self._multiplier = [nothing_seen(width) for width in widths]

    def __len__(self) -> int:
        return sum(len(some) for some in self._proven.trained)

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        return self.task.facts | self._proven.state | {
            "parts": self._job.n_parts, "written": self._written, "first": self.first,
            "kept": self._earlier_rounds,
        }  # fmt: skip

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        trained, written = state["trained"], state["written"]
        known = [number for some in trained for number in some]
        possible = set(range(len(self._proven.certificates)))
        if not set(known) <= set(written or known) <= possible or len({*known}) < len(known):
            raise ValueError("the models of the state are not those of the run")
        if state["parts"] != self._job.n_parts:
            raise ValueError("the parts of the state are not those of the run")
        if not self.task.alone:
            self._proven.take_certificates(state, self._job.options.gap)
        self._proven.trained = [np.array(some, np.int64) for some in trained]
        self._allocate()
        self._written, self._taken = list(written), np.zeros(len(written))
        self.first, self._earlier_rounds = state.get("first", 0), list(state.get("kept", []))

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        numbered = {
            "w": self.W, "average": self.average, "terms": self._terms, "stats": self._stats,
            "gain": self._gain, "first": self._first,
        }  # fmt: skip
        if not self._job.options.regularize_bias:
            numbered["multiplier"] = self._multiplier
        arrays = {f"{name}-{k}": a for name, of in numbered.items() for k, a in enumerate(of)}
        return arrays | {
            "curvature-0": self._curvature, "entries": self._entries, "passes": self._passes,
            "taken": self._taken, "final": self._final,
        }  # fmt: skip

    def go_on_after(self, outer: int) -> None:
        """Go on after a round whose checkpoint was loaded."""
        self.outer, self.unsaved = outer, False

    @property
    def _at(self) -> Round:
        """Where the run stands, as workers are to know it."""
        goal = (self._job.options.gap or 0.0) / self._job.n_parts
        goals = [goal * np.maximum(of, 0.0) for of in self._duals]
        trained = self._proven.state["trained"]
        return Round(
            self.outer, trained, self._written, self._taken, self.first, int(self._passes[0]),
            goals, self._free_biases,
        )  # fmt: skip

    @property
    def _free_biases(self) -> list[FreeBias]:
        """Of each weight vectors; none if the bias is regularised."""
        if self._job.options.regularize_bias:
            return []
        parts = zip(self._terms, self.W, self._multiplier, strict=True)
        return [FreeBias.of(self.bias, terms, W[-1], seen) for terms, W, seen in parts]

    @property
    def _duals(self) -> list[Floats]:
        """The dual values; of the Lagrangian where the bias is free."""
        if not self._free_biases:
            return self._raised
        return [
            terms[:, kernels.DUAL] - 0.5 * column_norms(W[:-1]) - W[-1] * own.pull
            for terms, W, own in zip(self._terms, self.W, self._free_biases, strict=True)
        ]

    @property
    def _raised(self) -> list[Floats]:
        """What rounds raise: the dual values, or the augmented Lagrangian but for a constant."""
        return [
            terms[:, kernels.DUAL] - 0.5 * column_norms(W)
            for terms, W in zip(self._terms, self.W, strict=True)
        ]

    def _loaded(self, name: str, anew: bool) -> Any:
        """Return the future of weights of the checkpoint, which a worker reads and others get.

        With `anew` nothing is taken to be on the workers already.
        """
        if self._adopted:
            return self._engine.submit(worker.handed, self.W)
        if anew:
            self._futures.pop(name, None)
        if name not in self._futures:
            shapes = [(len(self.W[0]), 1)] if name == "curvature" else [W.shape for W in self.W]
            self._futures[name] = self._engine.submit(
                worker.load, self._job, self.outer, name, shapes
            )
        return self._futures[name]

    def start(self, previous: Previous, halt: Callable[[], bool]) -> sums.Started:
        """Start from the alpha of an earlier run: workers make it fit, and add up its weights.

        Nothing of its weights is taken over, but for those of a bias that is free.

        Abandoned is raised if `halt` returned true meanwhile: then nothing has changed.
        """
        self.first = previous.next_round
        self._passes[:] = WARM_PASSES
        at = replace(self._at, outer=-1)
        found = self._engine.sum_of_parts(
            worker.start, self._job, at, sums.added_starts, halt, lambda anew: [previous.sources]
        )
        for W, packed, own, terms in zip(
            self.W, found.weights, self._terms, found.terms, strict=True
        ):
            W[:], own[:] = packed.whole(), terms
        for W, bias in zip(self.W, found.biases, strict=False):
            W[-1] = bias
        self._written = np.concatenate(self._proven.trained).tolist()
        self._taken = np.ones(len(self._written))
        if self.task.alone:
            cost = float(self.task.pairs[0, 0])
            self._first[0][:] = previous.first_violation(cost)
        return found

    def advance(self, halt: Callable[[], bool]) -> None:
        """Do a round.

        Abandoned is raised if `halt` returned true meanwhile: then nothing has changed.
        """

        def needs(anew: bool) -> list[Any]:
            weights = self._loaded("w", anew)
            return [weights, self._loaded("curvature", anew) if self._several else None]

        change = self._engine.sum_of_parts(
            worker.descend, self._job, self._at, sums.added, halt, needs
        )
        self._take(change)
        self.outer += 1
        self._left, self._futures = None, {}

    def _take(self, change: sums.Change) -> None:
        """Move by what the parts have changed."""
        job, reports = self._job, change.reports
        for W, seen, own in zip(self.W, self._multiplier, self._free_biases, strict=False):
            W[-1] += own.move  # as the parts have added it
            seen[:] = own.seen
        before = self._raised
        self.spent = reduce(Times.plus, (report.times for report in reports))
        self.bytes_sent = sum(report.bytes_sent for report in reports)
        taken = []
        for k, (W, packed) in enumerate(zip(self.W, change.weights, strict=True)):
            moved = packed.whole()
            terms = np.sum([report.terms[k] for report in reports], axis=0)
            steps, best = best_steps(job.steps, W, moved, terms[..., kernels.DUAL])
            self._terms[k][:] = terms[best, np.arange(len(best))]
            W += steps * moved
            taken.append(steps)
            self._stats[k][:] = no_stats()
            for report in reports:
                add_stats(report.stats[k], self._stats[k])
        self._written = np.concatenate(self._proven.trained).tolist()
        self._taken = np.concatenate(taken)
        self._gain = [now - was for now, was in zip(self._raised, before, strict=True)]
        self._count(reports)
        for average, W in zip(self.average, self.W, strict=False):
            average += (RECENT if self.outer else 1.0) * (W - average)
        if self._several:
            self._learn_curvature(change)

    def _learn_curvature(self, change: sums.Change) -> None:
        """Compare the curvature of the sum of all changes with those of the parts."""
        squares = sums.squares_of(change).whole()[:, 0]
        together = np.zeros(len(squares), np.float32)
        for moved in change.weights:
            together += np.square(moved.whole()).sum(axis=1).astype(np.float32)
        apart = np.where(squares > 0.0, squares, 1.0)
        seen = np.where(squares > 0.0, together / apart, 1.0)
        assumed = REMEMBERED * self._curvature[:, 0] + (1.0 - REMEMBERED) * CAUTION * seen
        np.clip(assumed, 1.0, self._job.n_parts, out=self._curvature[:, 0])

    def _count(self, reports: tuple[sums.PartReport, ...]) -> None:
        """Count what was worked on, and say how often the working set is to be passed over."""
        self._entries[:] = np.sum([entries for r in reports for entries in r.entries], axis=0)
        gains = np.sum([stats[:, :, kernels.GAIN].sum(axis=1) for stats in self._stats], axis=0)
        pairs = np.stack([gains, self._entries], axis=1)
        passes = next_passes(int(self._passes[0]), *pairs[[FIRST, PASS]].tolist())
        if self._several and self.task.solver.smooth:
            entries = max(self._entries[FIRST] / self._job.n_parts, 1.0)
            passes = max(passes, min(int(LEAST_WORK / entries), MOST_PASSES))
        self._passes[0] = passes

    @property
    def n_sv(self) -> int:
        """Rows with an alpha that is not 0, summed over models that are trained."""
        return int(sum(terms[:, kernels.N_SUPPORT].sum() for terms in self._terms))

    def estimate(self) -> Estimate:
        """Return what the round saw, with P - D as sampled since, if it was.

        Models that were dropped have what was certified.
        """
        duals, stats = self._duals, self._stats
        lefts = [of[FIRST, :, kernels.GAP_TERM] for of in stats]
        if self._left is not None:
            lefts = [left.min(axis=0) for left in self._left]
        dual, left = np.concatenate(duals), np.concatenate(lefts)
        gaps = relative_gaps(dual, left)
        seen = Estimate(
            primal=float((dual + left).sum()),
            dual=float(dual.sum()),
            violation=float(np.concatenate(self._violations()).max()),
            steps=int(sum(of[:, :, kernels.STEPS].sum() for of in stats)),
            entries=int(self._entries.sum()),
            pass_entries=int(self._entries[PASS]),
            gap=float(gaps.max()),
            middle_gap=middle(gaps),
            rise=rises(np.concatenate(self._gain), dual),
            gaps=tuple(gaps.tolist()),
        )
        return self._proven.with_those_that_left(seen)

    def _violations(self) -> list[Floats]:
        """Return what LIBLINEAR's ``-e`` is compared with, of each weight vectors."""
        regression, n = self.task.solver.regression, self._n_rows
        added: list[Floats | None] = [self.bias * own.pull for own in self._free_biases]
        parts = zip(self._stats, self._first, added or [None] * len(self._stats), strict=True)
        return [violations(of[FIRST], regression, first, own, n) for of, first, own in parts]

    def sample_gap(self, halt: Callable[[], bool]) -> None:
        """Estimate from some rows what all contribute to P - D of each candidate."""
        proofs = self._prove(self._candidates(None), True, halt)
        self._left = [proof.remaining(self._n_rows) for proof in proofs]

    def certify(self, halt: Callable[[], bool]) -> Certificate:
        """Return the certificate, of several models the sums and the largest gap."""
        if self._left is None and self._job.options.gap is not None and not self._adopted:
            self.sample_gap(halt)  # as before it was resumed
        proofs = self._prove(self._candidates(self._left), False, halt)
        found = [proof.certificates() for proof in proofs]
        if self.task.alone:
            return found[0][0]
        self._proven.note(found)
        for k, (numbers, of) in enumerate(zip(self._proven.trained, found, strict=True)):
            for j, (number, certificate) in enumerate(zip(numbers, of, strict=True)):
                better = self.average[k] if certificate.average else self.W[k]
                self._final[:, number] = better[:, j]
        return joined(self.proven())

    def _candidates(self, left: list[Floats] | None) -> dict[str, list[Floats]]:
        """Return w and its average, or the one that is better for all models, by name."""
        names = {"w": self.W}
        if self.average and not self._adopted:
            names["average"] = self.average
        if left is None or len(names) == 1:
            return names
        better = np.concatenate([of[1] < of[0] for of in left])
        if better.all():
            del names["w"]
        elif not better.any():
            del names["average"]
        return names

    def _prove(
        self, candidates: dict[str, list[Floats]], sampling: bool, halt: Callable[[], bool]
    ) -> list[Proof]:
        """Return what all rows, or some, contribute to certificates of each weight vectors."""
        found = self._engine.sum_of_parts(
            worker.certify, self._job, self._at, sums.added_proofs, halt,
            lambda anew: [[self._loaded(name, anew) for name in candidates], sampling],
        )  # fmt: skip
        self.spent = self.spent.plus(found.times)
        proofs, free_biases = [], self._free_biases
        for k, W in enumerate(self.W):
            pair = [of[k] for of in candidates.values()]
            sides = free_biases[k].balance if free_biases else None
            recomputed = W[:0] if sampling else None
            proof = Proof(W, pair, W.shape[1], recomputed, sides)
            proof.include(found.sums[k], found.reach[k], found.recomputed[k].whole(), found.n)
            proofs.append(proof)
        return proofs

    def drop_solved(self) -> bool:
        """Train no further those of many models of which the certificate is good enough."""
        goal = self._job.options.gap
        if goal is None or self.task.alone:
            return False
        staying = self._proven.unsolved(goal, self._job.options.tolerance, self._violations())
        if all(some.all() for some in staying):
            return False
        self._drop(staying)
        return True

    def _drop(self, staying: list[NDArray[np.bool_]]) -> None:
        """Train only the models that are `staying`, and only the weight vectors that have any.

        The alpha of the others stays in the files of this round, which is noted.
        """
        self._earlier_rounds.append((self.outer, self._written, self._taken.tolist()))
        before = {
            name: getattr(self, name)
            for name in ("W", "average", "_terms", "_stats", "_gain", "_first", "_multiplier")
        }
        left = [k for k, some in enumerate(staying) if some.any()]
        self._proven.trained = [self._proven.trained[k][staying[k]] for k in left]
        self._allocate()
        for name, arrays in before.items():
            axis = 0 if name in ("_terms", "_gain", "_first") else 1
            for now, k in zip(getattr(self, name), left, strict=bool(arrays)):
                now[:] = np.compress(staying[k], arrays[k], axis)
        self._left, self._futures, self.unsaved = None, {}, True

    def chosen(self, certificate: Certificate) -> Floats:
        """Return the weights that were certified, float64[n_features + 1, M]."""
        if not self.task.alone:
            return self._final
        return self.average[0] if certificate.average else self.W[0]

    def proven(self) -> list[Certificate]:
        """Return the certificate of each of many models; nothing for one problem."""
        return self._proven.given

    def current(self) -> Floats:
        """Return the weights as they are, float64[n_features + 1, M]."""
        if self.task.alone:
            return self.W[0]
        weights = self._final.copy()
        for W, numbers in zip(self.W, self._proven.trained, strict=True):
            weights[:, numbers] = W
        return weights

    def adopt(self, weights: Floats) -> None:
        """Make other weights, float64[n_features + 1, M], the only candidates."""
        for k, some in enumerate(self._proven.trained):
            self.W[k][:] = weights.reshape(self._n, -1)[:, some]
        self._left, self._adopted = None, True


def best_steps(
    possible: Floats, W: Floats, moved: Floats, terms: Floats
) -> tuple[Floats, NDArray[np.int64]]:
    """Return the step of each model along its change for which the dual is largest.

        D(step) = sum_i g_i(alpha_i + step a_i) - 1/2 |w + step v|**2

    Parameters
    ----------
    possible : float64[n_steps]         `Job.steps`
    W, moved : float64[n_features + 1, M]         w, and v of a step of 1
    terms : float64[n_steps, M]         the sums, for each possible step

    Returns
    -------
    float64[M], int64[M]
        The steps, and their numbers.
    """
    best = np.zeros(W.shape[1], np.int64)
    for j in range(len(best)):
        w, v = np.ascontiguousarray(W[:, j]), np.ascontiguousarray(moved[:, j])
        along, length = dot(w, v), dot(v, v)
        best[j] = int(np.argmax(terms[:, j] - possible * along - 0.5 * possible**2 * length))
    return possible[best], best
