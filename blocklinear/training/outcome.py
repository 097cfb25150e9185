"""What a run ended with."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear import __version__
from blocklinear.classes import Class
from blocklinear.model.linear import LinearModel
from blocklinear.objectives.certificate import Certificate
from blocklinear.objectives.tasks import Task
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run ended with.

    Attributes
    ----------
    weights : float64[n_features + 1, M]    by the numbers of the store, or of the input: see
                              `store.features.to_input`
    certificate : Certificate           of the model; of many, their sums, and the largest gap
    certificates : list of Certificate  of each of many models; empty for one
    outer : int               outer iterations
    stopped : str             "converged", or why it ended
    feature_names : tuple of str or None        of the input, if it has any
    recipe : dict or None     of the store, where it is made of tables
    """

    weights: NDArray[np.float64]
    certificate: Certificate
    certificates: list[Certificate]
    outer: int
    stopped: str
    feature_names: tuple[str, ...] | None = None
    recipe: Any = None

    def model(self, manifest: Manifest, options: TrainOptions, task: Task) -> LinearModel:
        """Return it as a model."""
        metadata = {
            "C": options.cost,
            "class_weights": [list(pair) for pair in options.class_weights],
            "balanced": options.balanced,
            "epsilon": task.epsilon,
            "method": options.method,
            "certificate": self.certificate.to_dict(),
            "outer_iterations": self.outer,
            "stopped": self.stopped,
            "seed": options.seed,
            "memory_bytes": options.memory_bytes,
            "hash_bits": manifest.hash_bits,
            "normalize": manifest.normalize,
            "store": manifest.fingerprint,
            "written_by": __version__,
        }
        if self.recipe is not None:
            metadata["recipe"] = self.recipe
        if self.certificates:
            metadata["certificates"] = [c.to_dict() for c in self.certificates]
        return LinearModel(
            weights=np.ascontiguousarray(self.weights[:-1]),
            bias_weights=self.weights[-1].copy(),
            bias=options.bias if options.bias >= 0 else -1.0,
            labels=task.labels,
            solver=task.solver.name,
            index_base=manifest.index_base,
            metadata=metadata,
            classes={} if task.solver.regression else _classes(manifest, task),
            feature_names=self.feature_names,
        )


def _classes(manifest: Manifest, task: Task) -> dict[float, Class]:
    """Return the labels that are trained, as they were given, where these are others."""
    return {code: name for code, name in manifest.given.items() if code in task.labels}
