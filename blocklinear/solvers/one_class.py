"""The one-class SVM on the groups of a store (Chou, Lin and Lin, 2020).

Pairs of rows of a group, or of the working set, exchange alpha, so that their sum stays as it is.
Groups are drawn anew in each outer iteration; with them alpha gets from block to block.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual
from blocklinear.kernels import one_class as kernels
from blocklinear.kernels.sums import add_rows, dot, squared_distance
from blocklinear.objectives.certificate import Certificate, Proof, norms_above
from blocklinear.objectives.one_class import (
    ZERO,
    OneClass,
    is_zero,
    pieces,
    prove,
    quantile,
    relative_gap,
)
from blocklinear.options import TrainOptions
from blocklinear.solvers.weight_vectors import (
    AGAIN,
    FIRST,
    LONGEST_PART,
    PASS,
    BlockStep,
    Floats,
    WeightVectors,
)
from blocklinear.solvers.working_set import Stratum, alternately
from blocklinear.store.groups import Group, RowView
from blocklinear.store.manifest import Manifest
from blocklinear.store.row_arrays import RowArray

APART = 1e-12
"""T times a violation, which bounds P - D, is rounding up to this share of |w|**2."""
PAIRED = 10
"""At most one in so many rows of a group exchanges alpha with another one."""


class OneClassModel(WeightVectors):
    """The one-class SVM of a store."""

    models: OneClass

    def __init__(
        self, problem: OneClass, manifest: Manifest, options: TrainOptions, folder: Path
    ) -> None:
        super().__init__(problem, manifest, options, folder)
        self._manifest = manifest
        self._mass = problem.nu * manifest.weights["total"]  # T
        self._targets = np.full(len(manifest.blocks), np.nan)  # sums of alpha to begin with
        self._length = np.zeros(1)  # nu times the sum of U_i |x_i|, as sampled last
        columns = 1 + manifest.weighted
        self._found = RowArray(folder / "decisions.work", manifest, np.float64, columns)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return super().arrays | {"targets": self._targets, "length": self._length}

    def begin(self, goal: float) -> None:
        """Start an outer iteration; the first time say which sums alpha are to have."""
        super().begin(goal)
        if np.isnan(self._targets).any():
            self._targets[:] = self._shares()

    def _shares(self) -> Floats:
        """Return what the alpha of each block sum to once they are feasible, float64[n_blocks].

        Blocks have their shares of T, or of what T is more or less than the sum that a warm start
        left. All are multiples of a power of two, so that they sum to T exactly.
        """
        blocks, first = self._manifest.blocks, self._manifest.first_positions.tolist()
        if self.models.nu == 1.0:  # all alpha are at their bounds
            return np.full(len(blocks), np.inf)
        rooms = [b.weights["total"] if self._manifest.weighted else b.rows for b in blocks]
        own = np.array([self.alpha.all[slice(*pair)].sum() for pair in pairwise(first)])
        more = self._mass - float(own.sum())
        free = np.array(rooms, np.float64) - own if more > 0.0 else own
        wanted = own + free * (more / float(free.sum()))
        unit = max(self.models.quantum, math.ulp(self._mass))
        upto: Floats = np.floor(np.cumsum(wanted) / unit) * unit
        upto[-1] = self._mass
        return np.diff(upto, prepend=0.0)

    def work(self, group: Group, *args: Any) -> Any:
        """Work on one group; in the first outer iteration make its alpha feasible before."""
        if args[0] == 1:
            self._make_feasible(group)
        return super().work(group, *args)

    def _make_feasible(self, group: Group) -> None:
        """Give the alpha of each block the sum that it is to have."""
        alpha, upper = self.lines(group).reshape(-1), self.models.costs(group)
        before = alpha.copy()
        for block, ends in zip(group.blocks, pairwise(group.starts.tolist()), strict=True):
            rows = slice(*ends)
            alpha[rows] = self._with_sum(alpha[rows], upper[rows], self._targets[block])
        self.alpha.write(group.blocks, alpha)
        add_rows(group.rows.arrays, (alpha - before)[:, None], 0.0, self.W)

    def _with_sum(self, alpha: Floats, upper: Floats, target: float) -> Floats:
        """Return alpha that sum to a target: scaled down, or filled up from the first row on."""
        alpha = np.minimum(self.models.rounded(alpha), upper)
        there = float(alpha.sum())
        if there > target:
            alpha = self.models.rounded(alpha * (target / there))
            there = float(alpha.sum())
        upto = np.cumsum(upper - alpha)
        full = int(np.searchsorted(upto, target - there, "right"))
        if full < len(alpha):
            left = target - there - (upto[full - 1] if full else 0.0)
            alpha[full] += max(math.floor(left / self.models.quantum) * self.models.quantum, 0.0)
        alpha[:full] = upper[:full]
        return alpha

    def _data(self, rows: RowView) -> Floats:
        """Return U_i."""
        return self.models.costs(rows)

    def _epoch(self, step: BlockStep, epoch: int, order: NDArray[np.int64]) -> None:
        """Work on all rows at a time; then on the working set, if the group holds all rows."""
        why = AGAIN if epoch else FIRST
        parts = max(-(-len(step.rows.indices) // LONGEST_PART), 1)
        for number, part in enumerate(np.array_split(order, parts)):
            if (number or epoch) and step.cut_short() and epoch:
                break
            self._descend(step, part, why)
            self._count(step.rows.entries(part), len(part), why)
        for number in range(step.passes):
            if step.cut_short():
                break
            self._pass_over_group(step, epoch, number)

    @property
    def ends_early(self) -> bool:
        """No: what rows add depends on rho, of which the rows of a part of the blocks tell little.

        Asked before the last block step, samples saved 3 to 11 % of the entries at gaps of 1e-2 and
        1e-3, and cost 5 to 20 % at 1e-4, with certificates in vain.
        """
        return False

    def _count(self, entries: int, n_rows: int, why: int) -> None:
        """Count what was worked on; there is no average."""
        self.entries[why] += entries

    def _descend(
        self, step: BlockStep, order: NDArray[np.int64], why: int, number: int = 0
    ) -> None:
        """Pair the rows of the smallest f that may gain with those of the largest that may lose.

        Of a group a tenth at most, as in LIBLINEAR: the f of the others may have changed by then.
        """
        rows, alpha, stats = step.rows, step.alpha.reshape(-1), self.stats[why, 0]
        upper: Floats = step.data
        w, f = self.W.reshape(-1), np.empty(len(order))
        kernels.decision_values(rows.arrays, order, w, f)
        by = np.argsort(f, kind="stable")
        order, f = order[by], f[by]
        del by  # what a row takes meanwhile counts
        before, bound = alpha[order], upper[order]
        most = len(order) if why == PASS else max(len(order) // PAIRED, 1)
        rising = np.flatnonzero(before < bound)[:most].copy()
        falling = np.flatnonzero(before > 0.0)[::-1][:most].copy()
        stats[dual.STEPS] += len(order)
        if len(rising) and len(falling):
            stats[dual.PG_MAX] = max(stats[dual.PG_MAX], f[falling[0]])
            stats[dual.PG_MIN] = min(stats[dual.PG_MIN], f[rising[0]])
            rho = _at(f, np.cumsum(bound), before.sum())
            stats[dual.GAP_TERM] += _gap_terms(f, bound, before, rho)
            n = min(len(rising), len(falling))
            violating = f[rising[:n]] < f[falling[:n]]
            self.entries[why] += kernels.exchange(
                rows.arrays, upper, self.models.quantum,
                order[rising[:n][violating]], order[falling[:n][violating]], alpha, w, stats,
            )  # fmt: skip
        if why != PASS:
            after = alpha[order]
            rho = _at(f, np.cumsum(bound), self.models.nu * bound.sum())
            free = (after > 0.0) & (after < bound)
            stays = free | (after > 0.0) & (f > rho) | (after < bound) & (f < rho)
            stays[rising[:1]] = stays[falling[:1]] = True  # no pair of blocks is kept apart
            step.ranges[order] = np.where(stays, self.all_models, 0)
            step.priority[order] = (after - before) ** 2 * rows.sq_norm[order]

    def _terms_of(self, data: Floats, alpha: Floats) -> Floats:
        terms = np.zeros((1, dual.N_TERMS))
        terms[0, dual.N_SUPPORT] = np.count_nonzero(alpha)
        return terms

    def _certify(self, rows: RowView, data: Any, alpha: Floats, proof: Proof) -> None:
        """Add what rows contribute to a certificate."""
        assert isinstance(proof, OneClassProof)
        f = np.empty(len(rows))
        kernels.certify_rows(
            rows.arrays, data, alpha.reshape(-1), self.W.reshape(-1), proof.length,
            proof.recomputed.reshape(-1), proof.sizes, f, proof.seen,
        )  # fmt: skip
        self._found.table[rows.positions, 0] = f
        if rows.weights is not None:
            self._found.table[rows.positions, 1] = data

    def _left(self, strata: Sequence[Stratum], enough: Floats | float) -> Floats:
        """Return P - D as some rows tell, float64[1, 1]; each counts for all that it stands for."""
        found, length = [], 0.0
        for k, rows, alpha in alternately(strata):
            f, upper, times = np.empty(len(rows)), self._data(rows), strata[k].n / strata[k].drawn
            kernels.decision_values(rows.arrays, np.arange(len(f)), self.W.reshape(-1), f)
            length += times * self.models.nu * float((upper * np.sqrt(rows.sq_norm)).sum())
            found.append((f, times * upper, times * self._alpha_of(rows, alpha)[:, 0]))
        f, upper, alpha = map(np.concatenate, zip(*found, strict=True))
        rho = quantile(f, upper, float(alpha.sum()))
        most = -float(self.duals[0])  # P - D of w = 0
        self._length[0] = length
        return np.array([[min(_gap_terms(f, upper, alpha, rho), most)]])

    def relative_gaps(self, dual: Floats, left: Floats) -> Floats:
        """Return what P - D, which is `left`, is relative to the objective, float64[1]."""
        found = relative_gap(
            float(dual[0] + left[0]), float(dual[0]), float(left[0]), self._length[0]
        )
        return np.array([found])

    def aim(self, goal: float) -> None:
        """Set the goal of P - D by a relative gap and the dual value, which is negative."""
        self.goals[:] = goal * np.abs(self.duals) * self.terms.any()

    def proof(self, recompute: bool = True, memory: Floats | None = None) -> Proof:
        """Return a certificate to be, before any row was added.

        Only an objective that is small compared with what rows could add up to can be 0. To find
        out takes another vector, for which there is room, as w has no average.
        """
        small = 0.5 * ZERO * self._length[0] ** 2 > abs(self.duals[0])
        return OneClassProof(self.W, memory, small or self._options.gap is None)

    def certificates(self, proof: Proof) -> list[Certificate]:
        """Return the certificate, once all groups were added."""
        assert isinstance(proof, OneClassProof)
        seen, weighted = proof.seen, self._manifest.weighted
        found = self._found.table
        f, upper = found[:, 0], found[:, 1] if weighted else None
        mass, off = self._mass, 0.0
        if not (self.models.nu == 1.0 and seen[kernels.MASS] == seen[kernels.TOTAL]):
            off = float(seen[kernels.MASS] - mass + seen[kernels.MASS_LOW])
        rho = quantile(f, upper, mass)
        sums, at = np.zeros(kernels.N_SUMS), 0
        for part, own in pieces(f, upper):
            kernels.add_losses(part, own, self.alpha.all[at : at + len(part)], rho, sums)
            at += len(part)
        w, again = self.W.reshape(-1), proof.recomputed.reshape(-1)
        square, distance = dot(again, again), squared_distance(w, again)
        drift = math.sqrt(distance / square) if square > 0.0 else 0.0
        squares = dot(w, w), square, distance
        zero = len(proof.sizes) > 0 and is_zero(again, self.models.nu * proof.sizes)
        return [prove(squares, mass, off, rho, seen, sums, len(f), drift, zero)]

    def candidate(self, certificate: Certificate) -> Floats:
        """Return the weights that a certificate is about."""
        return np.zeros_like(self.W) if certificate.primal == 0.0 else self.W

    @property
    def gain(self) -> Floats:
        """What the work added to the dual value; infinite where rows of other groups may add more.

        That no pair of a group moves does not mean that none can: others meet in the next groups.
        """
        w = self.W.reshape(-1)
        violated = float(self.violations()[0]) * self._mass > APART * dot(w, w)
        return np.full(1, np.inf) if violated else super().gain

    def violations(self) -> Floats:
        """Return the largest f of a row that has an alpha, less the smallest of one below U."""
        stats = self.stats[FIRST]
        found: Floats = np.maximum(stats[:, dual.PG_MAX] - stats[:, dual.PG_MIN], 0.0)
        return found

    def discard(self) -> None:
        """Delete the scratch files."""
        super().discard()
        self._found.discard()


class OneClassProof(Proof):
    """What a pass over rows adds up for the certificate of a one-class SVM.

    Attributes
    ----------
    length : float            |v|, or more
    sizes : float64[n_features + 1 or 0]        sum_i U_i |x_ij|, if it is asked for
    seen : float64[N_SEEN]    as the kernels leave it
    """

    def __init__(self, W: Floats, recomputed: Floats | None, sizes: bool) -> None:
        super().__init__(W, [W], 1, recomputed)
        self.length = float(norms_above(dot(W.reshape(-1), W.reshape(-1))))
        self.sizes = np.zeros(len(W) if sizes else 0)
        self.seen = np.zeros(kernels.N_SEEN)


def _gap_terms(f: Floats, upper: Floats, alpha: Floats, rho: float) -> float:
    """Return what rows add to P - D."""
    sums = np.zeros(kernels.N_SUMS)
    kernels.add_losses(f, upper, alpha, rho, sums)
    return float(sums[kernels.GAP_TERM])


def _at(f: Floats, upto: Floats, mass: float) -> float:
    """Return the f of sorted rows up to which their weights, summed up, reach a mass."""
    return float(f[min(int(np.searchsorted(upto, mass)), len(f) - 1)]) if len(f) else 0.0
