"""What parts report of a round or of a certificate, and how it is added up: in order of number."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.solvers.newton.passes import RowSums
from blocklinear.training.run import Times

Floats = NDArray[np.float64]
Array = NDArray[Any]


@dataclass(frozen=True)
class Packed:
    """An array of a row for each feature, on its way: rows of zeros are left out if that is less.

    The rows of a part have some of the features only. Nothing is rounded.
    """

    n: int  # features
    # uint32[k]: of the rows that are here, increasing; None if all are
    places: NDArray[np.uint32] | None
    values: Array  # float[k or n, width]

    @classmethod
    def of(cls, array: Array, part: bool = True) -> "Packed":
        """Pack float[n, width], of a `part` of the rows: all rows have all features."""
        if not part:
            return cls(len(array), None, array)
        n, row_bytes = len(array), array.itemsize * array.shape[1]
        there = array[:, 0] != 0.0 if array.shape[1] == 1 else array.any(axis=1)
        if np.count_nonzero(there) * (4 + row_bytes) >= n * row_bytes:
            return cls(n, None, array)
        places = np.flatnonzero(there)
        return cls(n, places.astype(np.uint32), array[places])

    def plus(self, other: "Packed") -> "Packed":
        """Return the sum with another array of this shape."""
        places, row_bytes = None, self.values.itemsize * self.values.shape[1]
        if self.places is not None and other.places is not None:
            places = np.union1d(self.places, other.places)
            if len(places) * (4 + row_bytes) >= self.n * row_bytes:
                places = None
        n_rows = self.n if places is None else len(places)
        values = np.zeros((n_rows, self.values.shape[1]), self.values.dtype)
        for part in (self, other):
            if part.places is None:
                values += part.values
            else:
                to = part.places if places is None else np.searchsorted(places, part.places)
                values[to] += part.values
        return Packed(self.n, places, values)

    def whole(self) -> Array:
        """Return all rows, float[n, width]."""
        if self.places is None:
            return self.values
        found = np.zeros((self.n, self.values.shape[1]), self.values.dtype)
        found[self.places] = self.values
        return found

    @property
    def nbytes(self) -> int:
        """What is sent."""
        return self.values.nbytes + (0 if self.places is None else self.places.nbytes)


@dataclass(frozen=True)
class ProofSums:
    """What rows contribute to certificates, for each weight vectors; see `Proof`."""

    sums: list[Floats]  # list of float64[2, N_SUMS, n_problems]
    reach: list[Floats]  # list of float64[N_REACHES, n_problems]
    recomputed: list[Packed]  # float64[n_features + 1 or 0, width]
    n: int  # rows
    times: Times


@dataclass(frozen=True)
class PartReport:
    """What a part did in a round."""

    # list of float64[n_steps, n_problems, N_TERMS] of each weight vectors: what the rows
    # contribute to the dual after each of `Job.steps`
    terms: list[Floats]
    stats: list[Floats]  # list of float64[3, n_problems, N_STATS]: as `WeightVectors` has them
    entries: list[Floats]  # list of float64[3]
    times: Times
    bytes_sent: int  # of changes of weights


@dataclass(frozen=True)
class Change:
    """What parts have changed in a round."""

    # float64[n_features + 1, width]: sums over the parts, for each weight vectors
    weights: list[Packed]
    # float32[n_features + 1, 1]: sums over parts and models of their squares; None for one part,
    # where they follow from `weights`
    squares: Packed | None
    reports: tuple[PartReport, ...]  # in order of number


def squares_of(change: Change) -> Packed:
    """Return the squares of a change, computed from its weights if they were not sent."""
    if change.squares is not None:
        return change.squares
    sums = np.sum([np.square(moved.whole()).sum(axis=1) for moved in change.weights], axis=0)
    return Packed.of(sums.astype(np.float32)[:, None])


def added(one: Change, other: Change) -> Change:
    """Return the change of two sets of parts together."""
    return Change(
        [a.plus(b) for a, b in zip(one.weights, other.weights, strict=True)],
        squares_of(one).plus(squares_of(other)),
        one.reports + other.reports,
    )


@dataclass(frozen=True)
class Started:
    """What parts have made of the alpha of an earlier run, for each weight vectors."""

    weights: list[Packed]  # float64[n_features + 1, width]
    # list of float64[n_problems, N_TERMS]: what the rows contribute to the dual
    terms: list[Floats]
    # list of float64[width]: weights that the bias had; none if it is regularised
    biases: list[Floats]
    bytes_read: int  # of blocks


def added_starts(one: Started, other: Started) -> Started:
    """Return what two sets of parts have made together."""
    return Started(
        [a.plus(b) for a, b in zip(one.weights, other.weights, strict=True)],
        [a + b for a, b in zip(one.terms, other.terms, strict=True)],
        one.biases,
        one.bytes_read + other.bytes_read,
    )


@dataclass(frozen=True)
class PassReport:
    """What rows contribute to a pass of Newton's method, for each models that share one."""

    found: list[RowSums]
    n_rows: int
    times: Times

    @property
    def writable(self) -> list[RowSums]:
        """The sums, copied where Dask has left them in memory that must not be written to."""
        return [
            RowSums(*(np.require(array, requirements="W") for array in vars(of).values()))
            for of in self.found
        ]


def added_passes(one: PassReport, other: PassReport) -> PassReport:
    """Return what two sets of rows contribute together."""
    return PassReport(
        [a.plus(b) for a, b in zip(one.found, other.found, strict=True)],
        one.n_rows + other.n_rows,
        one.times.plus(other.times),
    )


def added_proofs(one: ProofSums, other: ProofSums) -> ProofSums:
    """Return what two sets of rows contribute together."""
    return ProofSums(
        [a + b for a, b in zip(one.sums, other.sums, strict=True)],
        [a + b for a, b in zip(one.reach, other.reach, strict=True)],
        [a.plus(b) for a, b in zip(one.recomputed, other.recomputed, strict=True)],
        one.n + other.n,
        one.times.plus(other.times),
    )
