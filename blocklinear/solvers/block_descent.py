"""Dual coordinate descent on the groups of a store, of one model or many (Yu, Algorithm 2).

Each group is loaded once for all models, and each row gathered once for those that share a pass.
Which models share `WeightVectors` depends on their number alone, so no result depends on threads.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.dual import GAIN
from blocklinear.objectives.certificate import Certificate, Proof, aligned_zeros, joined
from blocklinear.objectives.models import Models
from blocklinear.options import TrainOptions
from blocklinear.solvers.many import ManyModels
from blocklinear.solvers.newton.solver import Newton
from blocklinear.solvers.pass_statistics import middle, rises
from blocklinear.solvers.protocol import CutShort, Estimate, Solver, Start, each
from blocklinear.solvers.proven_models import ProvenModels
from blocklinear.solvers.row_orders import parts_of_passes
from blocklinear.solvers.single import SingleModel
from blocklinear.solvers.weight_vectors import FIRST, PASS, Floats, WeightVectors
from blocklinear.solvers.working_set import (
    Sample,
    WorkingSet,
    has_passes,
    next_passes,
    sample_entries,
)
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded

T = TypeVar("T")


class BlockDescent(Solver):
    """The weight vectors of a run, and the rows kept in memory for all of them.

    So many entries of rows may be kept in memory; they are not copied where one group holds all
    blocks. If it `samples`, some of them are a sample, which tells how large P - D is, and averages
    are taken of weights. The workers of a cluster do neither, as both are of all their parts.

    Attributes
    ----------
    vectors : sequence of WeightVectors         each is worked on by one thread at a time
    passes : float64[1]       over the working set in the next outer iteration
    goal : float64[1]         the relative gap at which the outer iteration may end, as rows tell
    counted : bool[n_blocks]  of which blocks the `terms` of vectors have the rows: of those that
                              had a turn, or were seen by a certificate
    """

    passes: Floats

    def __init__(
        self,
        vectors: Sequence[WeightVectors],
        manifest: Manifest,
        options: TrainOptions,
        working_set_entries: int = 0,
        samples: bool = True,
    ) -> None:
        self.vectors, self._manifest, self._options = vectors, manifest, options
        self.task, self._by_pass = vectors[0].models, [np.arange(vectors[0].width)]
        self.bias, self.first_violation = vectors[0].bias, vectors[0].first_violation
        self.updates = vectors[0].updates
        self.starts_from_w = self.updates is not None
        self._uses_working_set, self._copies = has_passes(options), working_set_entries > 0
        self._lends = self._copies and self._uses_working_set
        asked = samples and options.gap is not None
        sampled = sample_entries(manifest, working_set_entries, options) if asked else 0
        self._sample = Sample(manifest, sampled) if asked else None
        room = working_set_entries - sampled if self._uses_working_set else 0
        lent = sum(one.W.size for one in vectors) if self._lends else 0
        self._working_set = WorkingSet(manifest, room, lent)
        for one in vectors:
            one.averages = samples and not self._lends
        self.passes, self.goal = np.ones(1), np.zeros(1)
        self.counted = np.zeros(len(manifest.blocks), np.bool_)
        self._threads = ThreadPoolExecutor(min(options.threads, len(vectors)), "descent")

    def __len__(self) -> int:
        return sum(len(vectors.terms) for vectors in self.vectors)

    @property
    def _trained(self) -> Sequence[WeightVectors]:
        """The vectors that are still trained."""
        return self.vectors

    def _each(self, work: Callable[..., T], *of: Iterable[Any]) -> list[T]:
        """Return what a function returns of each of the vectors that are trained, and of more."""
        return each(self._threads, work, self._trained, *of)

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        by_pass = [numbers.tolist() for numbers in self._by_pass]
        return self.task.facts | {
            "by_pass": by_pass, "trained": by_pass,
            "columns": [vectors.W.shape[1] for vectors in self.vectors],
            "regions": self._working_set.state,
        }  # fmt: skip

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._working_set.state = state["regions"]

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return {
            "passes": self.passes, "goal": self.goal, "counted": self.counted,
        } | {
            f"{name}-{k}": array
            for k, vectors in enumerate(self.vectors) for name, array in vectors.arrays.items()
        }  # fmt: skip

    @property
    def row_arrays(self) -> dict[str, Any]:
        """What is known of rows other than alpha, by the names of a checkpoint; it may all be 0."""
        return {name: lines for v in self.vectors for name, lines in v.row_arrays.items()}

    def restore(self, pass_over: Callable[[], Iterable[Loaded]]) -> None:
        """Fetch what is kept in memory only, after `arrays` were filled from a checkpoint."""
        state = self._working_set.state
        for loaded in pass_over() if self._copies else ():
            self._keep(loaded.group, [v.ranges(loaded.group) for v in self._trained])
            self._take(loaded.group)
        self._working_set.state = state  # as `wanted` was, for all rows and not for these
        self._note_counted(())

    def _keep(
        self, group: Group, ranges: list[NDArray[np.uint16]], *priority: Floats
    ) -> NDArray[np.bool_]:
        """Replace the working set's rows of a group; return whether each row is one, bool[n]."""
        chosen = np.flatnonzero(np.any(ranges, axis=0))
        first = np.sum(priority, axis=0)[chosen] if priority else np.zeros(len(chosen))
        return self._working_set.replace(group, chosen, first)

    def begin(self, goal: float, learns: bool = True) -> None:
        """Start an outer iteration, which may end at a relative gap of `goal`, as rows tell.

        It `learns` nothing from the first one after a warm start, which gained much as all rows
        were new to it. Then it has twice the passes, as loading is dear; or no more of them if all
        rows are in memory, where the passes before had all new rows.
        """
        gains = np.zeros((3, 2))  # of the dual, and entries worked on
        for vectors in self._trained:
            gains[:, 0] += vectors.stats[:, :, GAIN].sum(axis=1)
            gains[:, 1] += vectors.entries
            vectors.begin(goal)
        self.goal[0] = goal
        self._working_set.divide_anew()
        following = next_passes(int(self.passes[0]), *gains[[FIRST, PASS]].tolist())
        if not learns:
            following = 2 * self.passes[0] if self._copies else min(following, self.passes[0])
        self.passes[0] = following

    def step(self, group: Group, outer: int, number: int, steps: int, cut_short: CutShort) -> None:
        """Work on one group, block step `number` (from 0) of `steps`; then on the working set."""
        passes = int(self.passes[0]) if self._uses_working_set else 0
        resident, counted = steps == 1, self._counted_rows(group)
        stays = resident or (self.vectors[0].extrapolates and not self._copies)
        if resident and outer == 1 and self.started_warm:
            self._each(lambda vectors: vectors.aim_with(group, float(self.goal[0])))
        found = self._each(
            lambda vectors: vectors.work(
                group, outer, steps, passes if stays else 0, cut_short, counted
            )
        )
        self._note_counted(group.blocks)
        moving = np.full(group.n_rows, resident)
        if passes and not resident:
            moving = self._keep(group, [s for s, _ in found], *(p for _, p in found))
        for vectors, (ranges, _) in zip(self._trained, found, strict=True):
            vectors.set_ranges(group, np.where(moving, ranges, np.uint16(0)))
        if self._copies:
            late = passes // 2 if self.started_warm and outer == 1 else 0
            self._pass_over(outer, parts_of_passes(passes, number, steps, late), cut_short)
        self._look(group, outer, last=number + 1 == steps)

    def _counted_rows(self, group: Group) -> NDArray[np.bool_]:
        """Return of which rows of a group the `terms` of vectors have what they add, bool[n]."""
        return np.repeat(self.counted[list(group.blocks)], np.diff(group.starts))

    def _note_counted(self, blocks: Sequence[int]) -> None:
        """Note that `terms` have the rows of some more blocks.

        After a warm start they stand for all rows; else the alpha of all others are 0.
        """
        self.counted[list(blocks)] = True
        if not self.started_warm or self.counted.all():
            known = 1.0
        else:
            known = self._rows_of(self.counted) / max(self._manifest.n_rows, 1) or 1.0
        for vectors in self.vectors:
            vectors.known = known

    def _rows_of(self, blocks: NDArray[np.bool_]) -> int:
        """Return how many rows some of the blocks have, bool[n_blocks]."""
        return int(np.diff(self._manifest.first_positions)[blocks].sum())

    def _pass_over(
        self, outer: int, parts: Sequence[tuple[int, float, float]], cut_short: CutShort
    ) -> None:
        """Pass over parts of the working set."""

        def pass_over(vectors: WeightVectors) -> None:
            for part in parts:
                if cut_short() or vectors.pass_over(self._working_set, outer, *part):
                    break

        self._each(pass_over)

    def _take(self, group: Group) -> None:
        """Copy the sampled rows of blocks of a group of which the `terms` have the rows."""
        if self._sample is not None:
            self._sample.take(group, self.counted)

    def _look(self, group: Group, outer: int, last: bool) -> None:
        """Let a sample tell whether P - D is small enough; after the last block step how large."""
        if self._sample is None:
            return
        self._take(group)
        sample = self._sample
        unseen = self._rows_of(~self.counted) if self.started_warm else 0
        goal = float(self.goal[0]) if outer == 1 and self.started_warm else None
        self._each(lambda vectors: vectors.look(sample, self._working_set, unseen, goal, last))

    @property
    def reached(self) -> bool:
        """Whether P - D of all is as small as it is to be, as the sample tells."""
        return all(vectors.reached for vectors in self._trained)

    @property
    def n_sv(self) -> int:
        """Rows with an alpha that is not 0, summed over problems that are trained."""
        return sum(vectors.n_sv for vectors in self._trained)

    def estimate(self) -> Estimate:
        """Return the sums over all problems; of those still trained the worst gap and violation."""
        duals = self._each(lambda v: v.duals)
        primals = [v.primal(dual) for v, dual in zip(self._trained, duals, strict=True)]
        dual, primal = np.concatenate(duals), np.concatenate(primals)
        violation = np.concatenate([vectors.violations() for vectors in self._trained])
        gain = np.concatenate([vectors.gain for vectors in self._trained])
        entries = np.sum([vectors.entries for vectors in self._trained], axis=0)
        lefts = [p - d for p, d in zip(primals, duals, strict=True)]
        gaps = self._relative_gaps(duals, lefts)
        return Estimate(
            primal=float(primal.sum()),
            dual=float(dual.sum()),
            violation=float(violation.max()),
            steps=sum(vectors.steps for vectors in self._trained),
            entries=int(entries.sum()),
            pass_entries=int(entries[PASS]),
            parts=int(sum(vectors.parts[0] for vectors in self._trained)),
            gap=float(gaps.max()),
            middle_gap=middle(gaps),
            rise=rises(gain, dual),
            gaps=tuple(gaps.tolist()),
        )

    def _relative_gaps(self, duals: list[Floats], lefts: list[Floats]) -> Floats:
        """Return the relative gaps of all problems, float64[M], from D and P - D of all vectors."""
        parts = zip(self._trained, duals, lefts, strict=True)
        return np.concatenate([vectors.relative_gaps(*of) for vectors, *of in parts])

    def certify(self, stream: Iterable[Loaded], enough: float | None = None) -> Certificate | float:
        """Pass over the data once; return the sums over all problems, and the largest gap.

        As soon as all gaps are sure to be above `enough`, return the expected middle gap instead.
        """
        before = self.counted.copy(), [vectors.terms.copy() for vectors in self.vectors]
        try:
            return self._pass_to_certify(stream, enough)
        except BaseException:  # a resume goes back to where it was
            self.counted[:], terms = before
            for vectors, own in zip(self.vectors, terms, strict=True):
                vectors.terms[:] = own
            self._note_counted(())
            raise

    def _pass_to_certify(
        self, stream: Iterable[Loaded], enough: float | None
    ) -> Certificate | float:
        duals, proofs = self._each(lambda v: v.duals), self._proofs(ends=enough is None)
        n_rows, gaps, self.heavy = self._manifest.n_rows, np.zeros(len(self)), dict[int, bool]()
        for loaded in stream:
            self._each(WeightVectors.certify_group, [loaded.group] * len(proofs), proofs)
            if not self.counted.all():  # the outer iteration ended before
                duals = self._count(loaded.group)
            if enough is None:
                continue
            before, gaps = gaps, self._relative_gaps(duals, [proof.least() for proof in proofs])
            heavy = bool((gaps - before).max() > enough * loaded.group.n_rows / n_rows)
            self.heavy |= dict.fromkeys(loaded.group.blocks, heavy)
            if gaps.min() > enough:
                left = [proof.remaining(n_rows).min(axis=0) for proof in proofs]
                return middle(self._relative_gaps(duals, left))
        return self._certified(self._each(lambda v, proof: v.certificates(proof), proofs))

    def _proofs(self, ends: bool) -> list[Proof]:
        """Return certificates to be; where rows are copied, w is recomputed in their memory.

        The rows come back when their blocks have their turn; if the run `ends`, when it is resumed.
        """
        if not self._lends:
            return self._each(lambda v: v.proof())
        sizes = [vectors.W.size for vectors in self._trained]
        memory, n_rows = self._working_set.lend(sum(sizes))
        for vectors in self._trained if not ends else ():
            vectors.forget_ranges(n_rows)
        parts = np.split(memory, np.cumsum(sizes)[:-1])
        return self._each(lambda v, own: v.proof(memory=own.reshape(v.W.shape)), parts)

    def _count(self, group: Group) -> list[Floats]:
        """Let `terms` have the rows of a group; return the dual values, as far as known."""
        left = ~self._counted_rows(group)
        self._each(lambda vectors: vectors.count(group, left))
        self._note_counted(group.blocks)
        self._take(group)
        return self._each(lambda vectors: vectors.duals)

    def _certified(self, found: list[list[Certificate]]) -> Certificate:
        """Take note of certificates, of each of the vectors that are trained."""
        ((certificate,),) = found
        return certificate

    def chosen(self, certificate: Certificate) -> Floats:
        """Return the weights that a certificate is about, float64[n_features + 1, M]."""
        (vectors,) = self.vectors
        return vectors.candidate(certificate)

    def current(self) -> Floats:
        """Return the weights as they are, float64[n_features + 1, M]."""
        return self.vectors[0].W

    def adopt(self, weights: Floats) -> None:
        """Make other weights of one problem, float64[n_features + 1, M], the candidates."""
        self.vectors[0].W[:] = weights
        self.vectors[0].forget_average()

    @property
    def starts(self) -> list[Start]:
        """What a warm start is to fill."""
        return [Start(v.feasible_set, v.alpha.table, v.W) for v in self.vectors]

    def to_newton(self, enough_products: float, certificate: Certificate | None) -> Solver | None:
        """Return Newton's method for one model; None if the problem has no such method."""
        (one,) = self.vectors
        if not isinstance(one, SingleModel):
            return None
        return self._newton(one.models, enough_products, certificate, solved=())

    def _newton(
        self,
        task: Models,
        enough_products: float,
        certificate: Certificate | None,
        solved: Container[int],
    ) -> Newton:
        """Return Newton's method, which goes on from here."""
        options, alphas = self._options.for_newton(), [v.alpha for v in self.vectors]
        newton = Newton(task, alphas, self._manifest, options, enough_products, self)
        if certificate is not None:
            newton.go_on_from(self, certificate, solved)
        return newton

    def discard(self) -> None:
        """Delete the scratch files."""
        for vectors in self.vectors:
            vectors.discard()
        self._threads.shutdown()


class BlockDescentOfMany(BlockDescent):
    """Many models, in several `ManyModels`.

    The models of each have these numbers. A model that is good enough is dropped after a
    certificate that does not end the run; its weights are kept.
    """

    vectors: Sequence[ManyModels]

    def __init__(
        self,
        models: Models,
        vectors: Sequence[ManyModels],
        numbers: list[NDArray[np.int64]],
        manifest: Manifest,
        options: TrainOptions,
        working_set_entries: int = 0,
    ) -> None:
        super().__init__(vectors, manifest, options, working_set_entries)
        self.task, self._by_pass = models, numbers  # also of those that will be dropped
        self._proven = ProvenModels(numbers)

    @property
    def _trained(self) -> Sequence[ManyModels]:
        return [vectors for vectors in self.vectors if vectors.width]

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        return super().state | self._proven.state

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._working_set.state = state["regions"]
        pairs = list(zip(self._proven.trained, state["trained"], strict=True))
        if not all(np.isin(numbers, own).all() for own, numbers in pairs):
            raise ValueError("the models of the state are not those of the run")
        self._proven.take_certificates(state, self._options.gap)
        self._drop([np.isin(own, numbers) for own, numbers in pairs])

    def _drop(self, staying: list[NDArray[np.bool_]]) -> None:
        """Go on with some of the models of each of the vectors."""
        trained = self._proven.trained
        for vectors, numbers, own in zip(self.vectors, trained, staying, strict=True):
            if not own.all():
                vectors.drop(own, self._proven.averaged(numbers))
        self._proven.trained = [of[own] for of, own in zip(trained, staying, strict=True)]

    def estimate(self) -> Estimate:
        """Return the sums over all models; of those still trained the worst gap and violation."""
        return self._proven.with_those_that_left(super().estimate())

    def _certified(self, found: list[list[Certificate]]) -> Certificate:
        self._proven.note(found)
        return joined(self.proven())

    def drop_solved(self) -> bool:
        """Train no further those models of which the last certificate is good enough."""
        goal, before = self._options.gap, len(self)
        if goal is None:
            return False
        violations = [vectors.violations() for vectors in self.vectors]
        self._drop(self._proven.unsolved(goal, self._options.tolerance, violations))
        return len(self) < before

    def chosen(self, certificate: Certificate) -> Floats:
        """Return the weights that were certified, in new memory."""
        return self._weights([self._proven.averaged(of) for of in self._proven.trained])

    def proven(self) -> list[Certificate]:
        """Return the certificate of each model."""
        return self._proven.given

    def current(self) -> Floats:
        """Return the weights as they are, float64[n_features + 1, M], in new memory."""
        return self._weights([np.zeros(len(of), np.bool_) for of in self._proven.trained])

    def _weights(self, averaged: list[NDArray[np.bool_]]) -> Floats:
        """Return of models that were dropped what was certified, of others W or its average."""
        weights = aligned_zeros(self._manifest.n_features + 1, len(self.task))
        for vectors, of, numbers in zip(self.vectors, averaged, self._by_pass, strict=True):
            vectors.copy_certified(of, weights, numbers)
        return weights

    def to_newton(self, enough_products: float, certificate: Certificate | None) -> Solver | None:
        """Return Newton's method."""
        return self._newton(self.task, enough_products, certificate, self._proven.solved)
