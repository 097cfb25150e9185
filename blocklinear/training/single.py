"""What methods that train one model have in common."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.certificate import Certificate, certify
from blocklinear.training.problems import Problem
from blocklinear.training.rows import RowArray

Floats = NDArray[np.float64]


class SingleModel:
    """One model and its alpha.

    Attributes
    ----------
    problem : Problem
    bias : float              value of the bias feature, 0 for none
    w, average : float64[n_features + 1]        the model; its average over the outer iteration
    alpha : RowArray
    """

    def __init__(
        self, manifest: Manifest, problem: Problem, options: TrainOptions, folder: Path
    ) -> None:
        self.problem, self._options = problem, options
        self.bias = max(options.bias, 0.0)
        self.w = np.zeros(manifest.n_features + 1)
        self.average = np.zeros_like(self.w)
        self.alpha = RowArray(folder / "alpha.work", manifest)

    def __len__(self) -> int:
        return 1

    @property
    def state(self) -> dict[str, Any]:
        """What a warm start must know of the model, as JSON."""
        return {"labels": list(self.problem.labels), "costs": self.problem.pairs.tolist()}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        pass

    def certify(self, stream: Iterable[Loaded]) -> Certificate:
        """Pass over the data once; say how good the better of `w` and `average` is."""
        certificate, _ = certify(
            stream, self.problem, self.alpha, self.bias, self.w, self.average, self._watch
        )
        return certificate

    def _watch(self, group: Group, alpha: Floats, decisions: Floats) -> None:
        """See the rows of a group while they are certified."""

    def let_go(self) -> None:
        """Do nothing: there is one model, and the run ends when it is good enough."""

    def chosen(self, certificate: Certificate) -> Floats:
        """Return the candidate that a certificate is about."""
        return self.average if certificate.average else self.w

    def proven(self) -> list[Certificate]:
        """Return nothing: there is one model, and its certificate says all."""
        return []

    def current(self) -> Floats:
        """Return the weights as they are, float64[n_features + 1, 1]."""
        return self.w[:, None]

    def adopt(self, weights: Floats) -> None:
        """Make other weights, float64[n_features + 1, 1], the candidate."""
        self.w[:] = weights[:, 0]
        self.average[:] = weights[:, 0]
