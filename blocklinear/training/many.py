"""Many models in one sweep: each group is loaded once, each row gathered once, for all of them."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import MismatchError
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.bunch import Bunch
from blocklinear.training.certificate import Certificate, joined, relative_gap
from blocklinear.training.dealing import deal
from blocklinear.training.descent import Floats
from blocklinear.training.models import Models
from blocklinear.training.rows import RowArray
from blocklinear.training.tally import Estimate, rises
from blocklinear.training.together import Together

T = TypeVar("T")


class Ensemble:
    """All models of a run, in bunches that are swept by several threads.

    A model that is good enough leaves after a certificate that does not end the run; its weights
    are kept in `final`. How models are dealt to bunches depends on their number alone, so no result
    depends on the threads.

    Parameters
    ----------
    models : Models
    manifest : Manifest
    options : TrainOptions
    folder : Path
    active_entries : int
        As for `Descent`, for all bunches.

    Attributes
    ----------
    final : float64[n_features + 1, M]          weights as they were certified last
    certificates : list of Certificate or None  of each model, as far as it has one
    bunches : list of Bunch
    """

    def __init__(
        self,
        models: Models,
        manifest: Manifest,
        options: TrainOptions,
        folder: Path,
        active_entries: int = 0,
    ) -> None:
        self.models, self._options = models, options
        self.bias = max(options.bias, 0.0)
        self.final = np.zeros((manifest.n_features + 1, len(models)))
        self.certificates: list[Certificate | None] = [None] * len(models)
        self._dealt = deal(len(models))
        self.bunches = [
            Bunch(models.some(k), k, manifest, options, folder, f"-{i}")
            for i, k in enumerate(self._dealt)
        ]
        self._together = Together(manifest, options, active_entries)
        self._threads = ThreadPoolExecutor(min(options.threads, len(self._dealt)), "sweep")

    def __len__(self) -> int:
        return sum(bunch.width for bunch in self.bunches)

    @property
    def _staying(self) -> list[Bunch]:
        return [bunch for bunch in self.bunches if bunch.width]

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        models, labels = self.models, self.models.labels
        roles = zip(models.positive.tolist(), models.held_out.tolist(), strict=True)
        return {
            "staying": [bunch.numbers.tolist() for bunch in self.bunches],
            "columns": [bunch.W.shape[1] for bunch in self.bunches],
            "sweeps": self._together.sweeps,
            "certificates": [None if c is None else c.to_dict() for c in self.certificates],
            "dealt": [numbers.tolist() for numbers in self._dealt],
            "labels": list(labels),
            "asked": models.asked.tolist(),
            "costs": models.pairs.tolist(),
            "models": [[labels[k] if labels else None, fold] for k, fold in roles],
        }

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        pairs = zip(self.bunches, state["staying"], strict=True)
        known = all(np.isin(numbers, bunch.numbers).all() for bunch, numbers in pairs)
        if not known or len(state["certificates"]) != len(self.certificates):
            raise ValueError("the models of the state are not those of the run")
        self._check_left(state)
        self._together.sweeps = state["sweeps"]
        for bunch, numbers in zip(self.bunches, state["staying"], strict=True):
            if len(numbers) < bunch.width:
                bunch.leave(np.isin(bunch.numbers, numbers))
        self.certificates = [
            None if found is None else Certificate(**found) for found in state["certificates"]
        ]

    def _check_left(self, state: dict[str, Any]) -> None:
        """Refuse to go on to a smaller gap than that for which models have left."""
        staying = {number for numbers in state["staying"] for number in numbers}
        gaps = [found["gap"] for k, found in enumerate(state["certificates"]) if k not in staying]
        if gaps and (self._options.gap is None or max(gaps) > self._options.gap):
            raise MismatchError(
                f"{len(gaps)} models were finished with gaps up to {max(gaps):.3g}, and are no "
                "longer trained",
                "ask for that --gap, or give --restart instead of --resume",
            )

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        arrays = {"final": self.final}
        for k, bunch in enumerate(self.bunches):
            arrays |= {f"{name}-{k}": array for name, array in bunch.arrays.items()}
        return arrays

    @property
    def hints(self) -> dict[str, RowArray]:
        """What is known of rows beside alpha, by the names of a checkpoint; it may all be 0."""
        return {name: lines for b in self.bunches for name, lines in b.hints.items()}

    def restore(self, stream: Iterable[Loaded]) -> None:
        """Fetch what is kept in memory only, after `arrays` were filled from a checkpoint."""
        self._together.restore(self._staying, stream)

    def begin(self) -> None:
        """Start an outer iteration."""
        self._together.adapt(np.sum([bunch.gains for bunch in self._staying], axis=0))
        for bunch in self.bunches:
            bunch.begin()

    def visit(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        """Work on one group, as `Descent.visit`."""
        self._together.visit(self._each, group, outer, number, visits, halt)

    def _each(self, work: Callable[[Bunch], T]) -> list[T]:
        futures = [self._threads.submit(work, bunch) for bunch in self._staying]
        wait(futures)  # for all of them, also where one was abandoned
        return [future.result() for future in futures]

    @property
    def _left(self) -> list[Certificate]:
        """The certificates of the models that have left."""
        staying = {int(number) for bunch in self.bunches for number in bunch.numbers}
        numbered = enumerate(self.certificates)
        return [found for k, found in numbered if found is not None and k not in staying]

    def estimate(self) -> Estimate:
        """Return the sums over all models; of those that stay the worst gap and violation."""
        found = [bunch.estimates() for bunch in self._staying]
        primal, dual, violation, n_sv = map(np.concatenate, zip(*found, strict=True))
        gaps = [relative_gap(p, d) for p, d in zip(primal.tolist(), dual.tolist(), strict=True)]
        left = self._left
        return Estimate(
            primal=float(primal.sum()) + sum(c.primal for c in left),
            dual=float(dual.sum()) + sum(c.dual for c in left),
            violation=float(violation.max()),
            n_sv=int(n_sv.sum()),
            steps=sum(bunch.steps for bunch in self._staying),
            gap=max(gaps),
            middle_gap=sorted(gaps)[(len(gaps) - 1) // 2],
            rise=rises(np.concatenate([bunch.gain for bunch in self._staying]), dual),
        )

    def certify(self, stream: Iterable[Loaded]) -> Certificate:
        """Pass over the data once; return a certificate of all models.

        P and D are sums over them, gap and drift the largest.
        """
        staying = self._staying
        proofs = {id(bunch): bunch.proof() for bunch in staying}
        for loaded in stream:
            group = loaded.group

            def add(bunch: Bunch, group: Group = group) -> None:
                bunch.certify_group(group, proofs[id(bunch)])

            self._each(add)
        for bunch in staying:
            certificates = bunch.certificates(proofs.pop(id(bunch)))
            self.final[:, bunch.numbers] = bunch.W[:, : bunch.width]
            for j, (number, certificate) in enumerate(
                zip(bunch.numbers, certificates, strict=True)
            ):
                if certificate.average:
                    self.final[:, number] = bunch.average[:, j]
                self.certificates[number] = certificate
        return joined(self.proven())

    def let_go(self) -> None:
        """Train no further those models of which the last certificate is good enough."""
        goal, tolerance = self._options.gap, self._options.tolerance
        if goal is None:
            return
        for bunch in self._staying:
            proofs = [self.certificates[number] for number in bunch.numbers]
            staying = np.array([proof is None or proof.gap > goal for proof in proofs])
            if tolerance is not None:
                staying |= bunch.estimates()[2] > tolerance
            if not staying.all():
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
            weights[:, bunch.numbers] = bunch.W[:, : bunch.width]
        return weights

    def adopt(self, weights: Floats) -> None:
        """Make other weights the candidates of the models that stay."""
        for bunch in self._staying:
            bunch.W[:, : bunch.width] = weights[:, bunch.numbers]
            bunch.forget_average()

    def discard(self) -> None:
        """Delete the scratch files."""
        for bunch in self.bunches:
            bunch.discard()
        self._threads.shutdown()
