"""What parts report of a round or of a certificate, and how it is added up: in order of number."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProofSums:
    """What rows contribute to certificates, for each weight vectors; see `Proof`.

    Attributes
    ----------
    sums : list of float64[2, N_SUMS, n_problems]
    reach : list of float64[N_REACHES, n_problems]
    recomputed : list of float64[n_features + 1 or 0, width]
    n : int                   rows
    load_s, wait_s : float
    bytes_read : int
    """

    sums: list[Floats]
    reach: list[Floats]
    recomputed: list[Floats]
    n: int
    load_s: float = 0.0
    wait_s: float = 0.0
    bytes_read: int = 0


@dataclass(frozen=True)
class PartReport:
    """What a part did in a round.

    Attributes
    ----------
    number : int              of the part
    terms : list of float64[n_steps, n_problems, N_TERMS]   of each weight vectors: what the rows
                              contribute to the dual after each of `job.STEPS`
    stats : list of float64[3, n_problems, N_STATS]         as `WeightVectors` has them
    entries : list of float64[3]
    load_s, wait_s, solve_s : float
    bytes_read : int
    sample : ProofSums or None          of some rows, after a step of 1, where one worker has all
    """

    number: int
    terms: list[Floats]
    stats: list[Floats]
    entries: list[Floats]
    load_s: float
    wait_s: float
    solve_s: float
    bytes_read: int
    sample: ProofSums | None = None


@dataclass(frozen=True)
class Change:
    """What parts have changed in a round.

    Attributes
    ----------
    weights : list of float64[n_features + 1, width]        sums over the parts, for each weight
                              vectors
    squares : float32[n_features + 1]   sums over parts and models of their squares; empty for one
                              part
    reports : tuple of PartReport       in order of number
    """

    weights: list[Floats]
    squares: NDArray[np.float32]
    reports: tuple[PartReport, ...]


def added(one: Change, other: Change) -> Change:
    """Return the change of two sets of parts together."""
    return Change(
        [a + b for a, b in zip(one.weights, other.weights, strict=True)],
        one.squares + other.squares,
        one.reports + other.reports,
    )


def added_proofs(one: ProofSums, other: ProofSums) -> ProofSums:
    """Return what two sets of rows contribute together."""
    return ProofSums(
        [a + b for a, b in zip(one.sums, other.sums, strict=True)],
        [a + b for a, b in zip(one.reach, other.reach, strict=True)],
        [a + b for a, b in zip(one.recomputed, other.recomputed, strict=True)],
        one.n + other.n,
        one.load_s + other.load_s,
        one.wait_s + other.wait_s,
        one.bytes_read + other.bytes_read,
    )
