"""Many models that leave one by one: the certificate of each, and which are still trained."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import MismatchError
from blocklinear.numerals import counted
from blocklinear.objectives.certificate import Certificate
from blocklinear.solvers.protocol import Estimate

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class ProvenModels:
    """The models of a solver, by their numbers.

    Attributes
    ----------
    trained : list of int64[]           models that are trained, of each `WeightVectors`: at first
                              all
    certificates : list       of Certificate or None: the last of each model
    """

    def __init__(self, trained: Sequence[Numbers]) -> None:
        self.trained = list(trained)
        self.certificates: list[Certificate | None] = [None] * sum(map(len, trained))

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint says of them, as JSON."""
        return {
            "trained": [numbers.tolist() for numbers in self.trained],
            "certificates": [None if c is None else c.to_dict() for c in self.certificates],
        }

    def take_certificates(self, state: dict[str, Any], goal: float | None) -> None:
        """Take over the certificates of a checkpoint.

        MismatchError is raised if models have left with a larger gap than is asked for now,
        ValueError if these are not as many as there are models.
        """
        found = state["certificates"]
        if len(found) != len(self.certificates):
            raise ValueError("there is a certificate too few, or too many")
        trained = {number for numbers in state["trained"] for number in numbers}
        gaps = [c["gap"] for number, c in enumerate(found) if number not in trained]
        if gaps and (goal is None or max(gaps) > goal):
            raise MismatchError(
                f"{counted(len(gaps), 'model was', 'models were')} finished with gaps up to "
                f"{max(gaps):.3g}, and no longer trained",
                "ask for that --gap, or give --restart instead of --resume",
            )
        self.certificates = [None if c is None else Certificate(**c) for c in found]

    def note(self, found: Sequence[Sequence[Certificate]]) -> None:
        """Note the certificates of the models that are trained, as `trained` has them."""
        trained = [numbers for numbers in self.trained if len(numbers)]
        for numbers, of in zip(trained, found, strict=True):
            for number, certificate in zip(numbers, of, strict=True):
                self.certificates[number] = certificate

    @property
    def given(self) -> list[Certificate]:
        """The certificates that there are."""
        return [found for found in self.certificates if found is not None]

    @property
    def solved(self) -> set[int]:
        """The models that are no longer trained."""
        return set(range(len(self.certificates))).difference(*map(np.ndarray.tolist, self.trained))

    def averaged(self, numbers: Numbers) -> Flags:
        """Return of which of some models the average was certified."""
        found = [self.certificates[number] for number in numbers]
        return np.array([c is not None and c.average for c in found], np.bool_)

    def unsolved(
        self, goal: float, tolerance: float | None, violations: Sequence[NDArray[np.float64]]
    ) -> list[Flags]:
        """Return which of the models that are trained are not good enough, as `trained` has them.

        The goal is that of certified gaps, the tolerance that of violations.
        """
        found = []
        for numbers, of in zip(self.trained, violations, strict=True):
            proofs = [self.certificates[number] for number in numbers]
            found.append(np.array([p is None or p.gap > goal for p in proofs], np.bool_))
            if tolerance is not None:
                found[-1] |= of > tolerance
        return found

    def with_those_that_left(self, seen: Estimate) -> Estimate:
        """Return an estimate of the models that are trained as one of all."""
        trained = np.concatenate(self.trained)
        left = [c for k, c in enumerate(self.certificates) if c is not None and k not in trained]
        gaps = np.array([math.inf if c is None else c.gap for c in self.certificates])
        gaps[trained] = seen.gaps
        return dataclasses.replace(
            seen,
            primal=seen.primal + sum(c.primal for c in left),
            dual=seen.dual + sum(c.dual for c in left),
            gaps=tuple(gaps.tolist()),
        )
