"""What solvers have in common that certify each model in the passes they make anyway."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from blocklinear.objectives.certificate import Certificate, joined
from blocklinear.objectives.models import Models
from blocklinear.options import TrainOptions
from blocklinear.solvers.protocol import (
    Estimate,
    Solver,
    Trainee,
    attributes,
    each,
    take_attributes,
)
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded

Floats = NDArray[np.float64]
T = TypeVar("T")


class Iterate:
    """One model on its way.

    Attributes
    ----------
    saved : tuple of str      attributes that checkpoints have, which are numbers or pairs of these
    certificate : Certificate or None   of its weights
    n_sv : int                rows with an alpha that is not 0
    violation, first_violation : float  how far the weights are from optimal; at the beginning
    new, final : bool         whether the last pass led to other weights; whether rounding ends it
    """

    saved: ClassVar[tuple[str, ...]] = ("n_sv", "violation", "first_violation", "new", "final")

    def __init__(self) -> None:
        self.certificate: Certificate | None = None
        self.n_sv, self.violation, self.first_violation = 0, 0.0, 0.0
        self.new, self.final = False, False

    @property
    def state(self) -> dict[str, Any]:
        """All but arrays, as JSON."""
        proof = self.certificate and self.certificate.to_dict()
        return {"certificate": proof} | attributes(self, self.saved)

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self.certificate = state["certificate"] and Certificate(**state["certificate"])
        take_attributes(self, self.saved, state)


class CertifiedModels(Trainee):
    """Models of which each has a certificate after a pass, which is an outer iteration."""

    _models: Sequence[Iterate]
    """All of them, in their order."""

    def __init__(self, task: Models, manifest: Manifest, options: TrainOptions) -> None:
        self.task, self._options, self.bias = task, options, max(options.bias, 0.0)
        self._scales = tolerance_scales(task, manifest)
        self._adopted: Floats | None = None

    def compare_with(self, first: Sequence[float]) -> None:
        """Compare violations with these, one of each model; with none if they are not known."""
        if len(first) == len(self._models):
            for model, violation in zip(self._models, first, strict=True):
                model.first_violation = violation

    def _violations(self) -> Floats:
        """Return what LIBLINEAR's ``-e`` is compared with, float64[M]."""
        found = np.array([model.violation for model in self._models])
        first = np.array([model.first_violation for model in self._models])
        with np.errstate(all="ignore"):  # what overflows is noticed in certificates
            first *= self._scales
            return np.asarray(np.divide(found, first, out=np.zeros(len(found)), where=first > 0.0))

    def _unsolved(self) -> NDArray[np.bool_]:
        """Return which models are not as good as was asked for, and can become better; bool[M]."""
        gap, tolerance, models = self._options.gap, self._options.tolerance, self._models
        wanting = np.array(
            [
                model.certificate is None or (gap is not None and model.certificate.gap > gap)
                for model in models
            ]
        )
        if tolerance is not None:
            wanting |= self._violations() > tolerance
        return np.asarray(wanting & ~np.array([model.final for model in models]))

    def __len__(self) -> int:
        return int(self._unsolved().sum())

    def _shares(self, numbers: list[list[int]]) -> dict[str, Any]:
        """Return what a checkpoint says of which models have their alpha in one array."""
        return {"by_pass": numbers, "trained": numbers, "columns": [len(of) for of in numbers]}

    @property
    def n_sv(self) -> int:
        """Rows with an alpha that is not 0, summed over models."""
        return sum(model.n_sv for model in self._models)

    def estimate(self) -> Estimate:
        """Return the values of the weights, as certified."""
        found, models = self._certificates(), self._models
        gaps = [certificate.gap for certificate in found]
        return Estimate(
            primal=sum(certificate.primal for certificate in found),
            dual=sum(certificate.dual for certificate in found),
            violation=float(self._violations().max()),
            steps=0,
            gap=max(gaps),
            middle_gap=max(gaps),
            rise=math.inf,
            exact=True,
            final=not self._unsolved().any() and any(model.final for model in models),
            new=any(model.new for model in models),
            gaps=tuple(gaps),
        )

    def _certificates(self) -> list[Certificate]:
        return [model.certificate for model in self._models if model.certificate is not None]

    def chosen(self, certificate: Certificate) -> Floats:
        """Return the weights, float64[n_features + 1, M]."""
        return self.current()

    def proven(self) -> list[Certificate]:
        """Return the certificate of each of many models; nothing for one problem."""
        return [] if self.task.alone else self._certificates()

    def adopt(self, weights: Floats) -> None:
        """Make other weights, float64[n_features + 1, M], the candidates."""
        self._adopted = weights


class CertifiedPasses(CertifiedModels, Solver):
    """What trains such models on one group of rows after another.

    Threads share the work on a pass.
    """

    def __init__(self, task: Models, manifest: Manifest, options: TrainOptions) -> None:
        super().__init__(task, manifest, options)
        self._threads = ThreadPoolExecutor(options.threads, "passes")

    def _each(self, work: Callable[..., T], *of: Iterable[Any]) -> list[T]:
        """Return what a function returns of each of some parts."""
        return each(self._threads, work, *of)

    @abstractmethod
    def _evaluate(self, weights: Floats, stream: Iterable[Loaded]) -> None:
        """Pass over all rows to certify other weights, float64[n_features + 1, M]."""

    def certify(self, stream: Iterable[Loaded], enough: float | None = None) -> Certificate | float:
        """Return the certificate of the weights; of adopted ones after a pass."""
        if self._adopted is not None:
            self._evaluate(self._adopted, stream)
            self._adopted = None
        return joined(self._certificates())


def tolerance_scales(task: Models, manifest: Manifest) -> Floats:
    """Return what LIBLINEAR multiplies ``-e`` by for its primal solvers, float64[M].

    That is the share of rows of the smaller class; 1 for regression.
    """
    if task.solver.regression or manifest.labels is None:
        return np.ones(len(task))
    counts = dict(zip(manifest.labels, manifest.label_counts, strict=True))
    n, own = manifest.n_rows, [counts[task.labels[k]] for k in task.positive]
    found = [max(min(count, n - count), 1) / n for count in own]
    return np.array(found)
