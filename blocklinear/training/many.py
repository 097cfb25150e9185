"""Many models in one sweep: each group is loaded once, each row gathered once, for all of them."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual_many as kernels
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.certificate import Certificate, relative_gap
from blocklinear.training.descent import Estimate, Floats
from blocklinear.training.models import Models
from blocklinear.training.rows import RowArray
from blocklinear.training.swept import Proof, Sight, Swept, column_norms

_Roles = tuple[Floats, NDArray[np.int32], NDArray[np.int32], Floats]
"""Target, class, fold and weight of each row."""
MODELS_TOGETHER = 16
"""Models swept at once: their weights of a feature fill two cache lines."""


class Bunch(Swept):
    """Models that are swept together.

    Parameters
    ----------
    models : Models
    numbers : int64[M]
        What the caller calls them.
    manifest, options, folder, name, active_entries :
        As for `Swept`.
    folds : RowArray
        The fold of each row.
    """

    def __init__(
        self,
        models: Models,
        numbers: NDArray[np.int64],
        manifest: Manifest,
        options: TrainOptions,
        folder: Path,
        name: str,
        folds: RowArray,
        active_entries: int,
    ) -> None:
        super().__init__(len(models), manifest, options, folder, name, active_entries)
        self.models, self.numbers, self._folds = models, numbers, folds
        self._touch = np.zeros((len(models), kernels.N_TOUCH))
        self._later = np.zeros((len(models), kernels.N_TOUCH))
        self._terms = np.zeros((len(models), kernels.N_TERMS))
        self._make_room()

    def _make_room(self) -> None:
        self._scratch = np.zeros((kernels.N_SCRATCH, self.width))
        self._moved = np.zeros(self.width, np.int64)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        own = {"touch": self._touch, "later": self._later, "terms": self._terms}
        return super().arrays | own

    def begin(self) -> None:
        """Start an outer iteration."""
        super().begin()
        for tally in (self._touch, self._later):
            tally[:] = 0.0
            tally[:, kernels.PG_MAX], tally[:, kernels.PG_MIN] = -np.inf, np.inf

    @property
    def _asked(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]:
        return self.models.positive, self.models.held_out, self.models.cost

    @property
    def _rule(self) -> tuple[int, float]:
        return self.models.kind, self.models.epsilon

    def _roles(self, labels: Floats, positions: tuple[int, ...] | NDArray[np.int64]) -> _Roles:
        if isinstance(positions, tuple):
            fold = self._folds.read(positions)
        else:
            fold = self._folds.all[positions]
        return labels, self.models.codes(labels), fold, np.ones(len(labels))

    def _descend(
        self,
        sight: Sight,
        order: NDArray[np.int64],
        alpha: Floats,
        first: bool,
        moving: NDArray[np.bool_],
        worth: Floats,
    ) -> None:
        roles: _Roles = sight.roles
        kernels.dcd_many(
            sight.starts, sight.stops, sight.indices, sight.values, sight.sq_norm, *roles,
            order, *self._asked, *self._rule, self._bias, alpha, self.W, self._scratch,
            self._moved, self._touch if first else self._later, moving, worth,
        )  # fmt: skip

    def _add_terms(self, sight: Sight, alpha: Floats, sign: float) -> None:
        terms = np.zeros_like(self._terms)
        self._count_terms(sight, alpha, terms)
        self._terms += sign * terms

    def _count_terms(self, sight: Sight, alpha: Floats, terms: Floats) -> None:
        roles: _Roles = sight.roles
        kernels.add_many_dual_terms(*roles, *self._asked, *self._rule, alpha, self._scratch, terms)

    def estimates(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return primal, dual, violation and support vectors of each model, as `Estimate`."""
        self.finish()
        norms = column_norms(self.W)
        width = np.maximum(self._touch[:, kernels.PG_MAX], 0.0)
        width -= np.minimum(self._touch[:, kernels.PG_MIN], 0.0)
        primal = 0.5 * norms + self._touch[:, kernels.LOSS]
        dual = self._terms[:, kernels.DUAL] - 0.5 * norms
        return primal, dual, width, self._terms[:, kernels.N_SUPPORT]

    @property
    def steps(self) -> int:
        """Rows worked on, for each model."""
        return int(self._touch[:, kernels.STEPS].sum() + self._later[:, kernels.STEPS].sum())

    def certify_group(self, group: Group, proof: Proof) -> None:
        """Add what a group contributes to certificates."""
        sight, alpha = self.sight(group), self.lines(group)
        roles: _Roles = sight.roles
        kernels.certify_many(
            group.indptr, group.indices, group.values, *roles, *self._asked, *self._rule,
            self._bias, alpha, self.W, self.average, proof.recomputed, self._scratch,
            self._moved, proof.loss,
        )  # fmt: skip
        terms = np.zeros_like(self._terms)
        self._count_terms(sight, alpha, terms)
        proof.dual += terms[:, kernels.DUAL]

    def certificates(self, proof: Proof) -> list[Certificate]:
        """Return the certificate of each model, once all groups were added."""
        norms = column_norms(proof.recomputed)
        dual = proof.dual - 0.5 * norms
        of_w = 0.5 * column_norms(self.W) + proof.loss[:, 0]
        of_average = 0.5 * column_norms(self.average) + proof.loss[:, 1]
        proof.recomputed -= self.W
        drift = np.sqrt(column_norms(proof.recomputed) / np.where(norms > 0.0, norms, np.inf))
        primal = np.minimum(of_w, of_average)
        return [
            Certificate(
                float(primal[j]),
                float(dual[j]),
                relative_gap(float(primal[j]), float(dual[j])),
                float(drift[j]),
                bool(of_average[j] < of_w[j]),
            )
            for j in range(self.width)
        ]

    def leave(self, staying: NDArray[np.bool_]) -> None:
        """Go on with some of the models only."""
        super().leave(staying)
        self.models, self.numbers = self.models.some(staying), self.numbers[staying]
        self._touch, self._later = self._touch[staying], self._later[staying]
        self._terms = self._terms[staying]
        self._make_room()


class Ensemble:
    """All models of a run, in bunches that are swept by several threads.

    A model whose certificate is good enough leaves; its weights are kept in `final`. How models are
    dealt to bunches depends on their number alone, so no result depends on the threads.

    Parameters
    ----------
    models : Models
    manifest : Manifest
    options : TrainOptions
    folder : Path
    folds : RowArray
        The fold of each row, int32.
    active_entries : int
        As for `Descent`, for all bunches.

    Attributes
    ----------
    final : float64[n_features + 1, M]          weights as they were certified last
    certificates : list of Certificate or None  of each model, as far as it has one
    """

    def __init__(
        self,
        models: Models,
        manifest: Manifest,
        options: TrainOptions,
        folder: Path,
        folds: RowArray,
        active_entries: int = 0,
    ) -> None:
        self.models, self._gap = models, options.gap
        self.bias = max(options.bias, 0.0)
        self.final = np.zeros((manifest.n_features + 1, len(models)))
        self.certificates: list[Certificate | None] = [None] * len(models)
        n_bunches = min(len(models), max(2, -(-len(models) // MODELS_TOGETHER)))
        dealt = np.array_split(np.arange(len(models)), n_bunches)
        entries = active_entries // n_bunches
        self._bunches = [
            Bunch(models.some(k), k, manifest, options, folder, f"-{i}", folds, entries)
            for i, k in enumerate(dealt)
        ]
        self._threads = ThreadPoolExecutor(min(options.threads, n_bunches), "sweep")

    def __len__(self) -> int:
        return sum(bunch.width for bunch in self._bunches)

    @property
    def _staying(self) -> list[Bunch]:
        return [bunch for bunch in self._bunches if bunch.width]

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        proofs = [None if c is None else c.to_dict() for c in self.certificates]
        return {"staying": [b.numbers.tolist() for b in self._bunches], "certificates": proofs}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        for bunch, numbers in zip(self._bunches, state["staying"], strict=True):
            if len(numbers) < bunch.width:
                bunch.leave(np.isin(bunch.numbers, numbers))
        self.certificates = [
            None if found is None else Certificate(**found) for found in state["certificates"]
        ]

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        arrays = {"final": self.final}
        for k, bunch in enumerate(self._bunches):
            arrays |= {f"{name}-{k}": array for name, array in bunch.arrays.items()}
        return arrays

    def restore(self, stream: Iterable[Loaded]) -> None:
        """Fetch what is kept in memory only, after `arrays` were filled from a checkpoint."""
        for loaded in stream:
            for bunch in self._staying:
                bunch.restore_rows(loaded.group)

    def begin(self) -> None:
        """Start an outer iteration."""
        for bunch in self._bunches:
            bunch.begin()

    def visit(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        """Work on one group, as `Descent.visit`."""
        self._each(lambda bunch: bunch.visit(group, outer, number, visits, halt))

    def _each(self, work: Callable[[Bunch], None]) -> None:
        for _ in self._threads.map(work, self._staying):
            pass

    def estimate(self) -> Estimate:
        """Return the sums over the models that stay, and their worst gap and violation."""
        found = [bunch.estimates() for bunch in self._staying]
        primal, dual, violation, n_sv = map(np.concatenate, zip(*found, strict=True))
        gaps = [relative_gap(p, d) for p, d in zip(primal.tolist(), dual.tolist(), strict=True)]
        return Estimate(
            primal=float(primal.sum()),
            dual=float(dual.sum()),
            violation=float(violation.max()),
            n_sv=int(n_sv.sum()),
            steps=sum(bunch.steps for bunch in self._staying),
            gap=max(gaps),
            middle_gap=float(np.median(gaps)),
        )

    def certify(self, stream: Iterable[Loaded]) -> Certificate:
        """Pass over the data once; let models go that are good enough; return the sums, the worst.

        P and D are sums over the models that were trained until now, gap and drift the largest.
        """
        staying = self._staying
        proofs = {id(bunch): bunch.proof() for bunch in staying}
        for loaded in stream:
            group = loaded.group

            def add(bunch: Bunch, group: Group = group) -> None:
                bunch.certify_group(group, proofs[id(bunch)])

            self._each(add)
        found = []
        for bunch in staying:
            certificates = bunch.certificates(proofs.pop(id(bunch)))
            self._let_go(bunch, certificates)
            found += certificates
        return Certificate(
            primal=sum(c.primal for c in found),
            dual=sum(c.dual for c in found),
            gap=max(c.gap for c in found),
            drift=max(c.drift for c in found),
            average=False,
        )

    def _let_go(self, bunch: Bunch, certificates: list[Certificate]) -> None:
        goal = np.inf if self._gap is None else self._gap
        for j, (number, certificate) in enumerate(zip(bunch.numbers, certificates, strict=True)):
            chosen = bunch.average if certificate.average else bunch.W
            self.final[:, number] = chosen[:, j]
            self.certificates[number] = certificate
        staying = np.array([certificate.gap > goal for certificate in certificates])
        if staying.any() and not staying.all():
            bunch.leave(staying)

    def chosen(self, certificate: Certificate) -> Floats:
        """Return the weights that were certified."""
        return self.final

    def proven(self) -> list[Certificate]:
        """Return the certificate of each model."""
        return [found for found in self.certificates if found is not None]

    def current(self) -> Floats:
        """Return the weights as they are, float64[n_features + 1, M]."""
        weights = self.final.copy()
        for bunch in self._staying:
            weights[:, bunch.numbers] = bunch.W
        return weights

    def adopt(self, weights: Floats) -> None:
        """Make other weights the candidate.

        Raises
        ------
        NotImplementedError
            Always: models that have left cannot be judged again.
        """
        raise NotImplementedError("models that have left cannot be judged again")

    def discard(self) -> None:
        """Delete the scratch files."""
        for bunch in self._bunches:
            bunch.discard()
        self._threads.shutdown()
