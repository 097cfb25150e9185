"""What a run is of, and what it ended with."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear import __version__
from blocklinear.classes import code_text, given_labels
from blocklinear.errors import BlocklinearError
from blocklinear.events import Listener, MethodChosen, RunEnded, RunStarted, Warned
from blocklinear.inputs.urls import shown_name
from blocklinear.memory import peak_bytes
from blocklinear.model.linear import LinearModel
from blocklinear.objectives.certificate import Certificate, joined
from blocklinear.objectives.models import Models
from blocklinear.objectives.problems import SOLVERS
from blocklinear.options import TrainOptions
from blocklinear.store.features import read_names
from blocklinear.store.store import BlockStore

MOST_LABELS = 100
"""Classes whose rows a run log has, the largest of them."""
MOST_BATCHES = 20
"""Batches that it has, the last of them."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run ended with.

    Weights, float64[n_features + 1, M], are by the numbers of features in the store, or by those of
    the input: see `store.features.to_input`.
    """

    weights: NDArray[np.float64]
    certificates: list[Certificate]  # of each problem
    outer: int  # outer iterations
    newton: int  # of these, how many went on by Newton's method after coordinate descent
    stopped: str  # "converged", or why it ended
    cluster: dict[str, int] | None = None  # workers, parts and rounds, on several machines

    @property
    def certificate(self) -> Certificate:
        """That of the one problem; of many, their sums, and the largest gap."""
        first, *others = self.certificates
        return joined(self.certificates) if others else first

    def models(
        self, store: BlockStore, options: TrainOptions, task: Models, choice: MethodChosen | None
    ) -> list[LinearModel]:
        """Return the model of each C, of weights by the numbers of the input."""
        models, costs = [], options.costs or (options.cost,)
        weights = _divided(self.weights, len(costs))
        n = len(self.certificates) // len(costs)
        for k, (cost, W) in enumerate(zip(costs, weights, strict=True)):
            certificates = self.certificates[k * n : (k + 1) * n]
            part = dataclasses.replace(self, weights=W, certificates=certificates)
            one = dataclasses.replace(options, cost=cost, costs=())
            models.append(part._model(store, one, task, choice))
        return models

    def _model(
        self, store: BlockStore, options: TrainOptions, task: Models, choice: MethodChosen | None
    ) -> LinearModel:
        manifest = store.manifest
        metadata: dict[str, Any] = {
            "C": options.cost,
            "class_weights": [list(pair) for pair in options.class_weights],
            "balanced": options.balanced,
            "epsilon": task.epsilon,
            "regularize_bias": options.regularize_bias,
        }
        metadata |= {"l1_ratio": options.l1_ratio} if task.solver.l1 else {}
        metadata = {"nu": options.nu} if task.solver.one_class else metadata
        metadata |= {
            "method": options.method,
            "certificate": self.certificate.to_dict(),
            "outer_iterations": self.outer,
            "stopped": self.stopped,
            "seed": options.seed,
            "memory_bytes": int(options.memory_bytes),
            "hash_bits": manifest.hash_bits,
            "normalize": manifest.normalize,
            "store": manifest.fingerprint,
            "written_by": __version__,
        }
        certificates = [c.to_dict() for c in self.certificates]
        not_of_all = {
            "newton_iterations": self.newton,
            "method_chosen": choice and choice.why,
            "recipe": store.recipe,
            "cluster": self.cluster,
            "certificates": certificates if len(certificates) > 1 else [],
        }
        metadata |= {name: value for name, value in not_of_all.items() if value}
        return LinearModel(
            weights=np.ascontiguousarray(self.weights[:-1]),
            bias_weights=self.weights[-1].copy(),
            bias=options.bias if options.bias >= 0 else -1.0,
            labels=task.labels,
            solver=task.solver.name,
            index_base=manifest.index_base,
            metadata=metadata,
            rho=self.certificate.rho or 0.0,
            classes={code: name for code, name in manifest.given.items() if code in task.labels},
            feature_names=read_names(store.folder, manifest),
        )


def _divided(weights: NDArray[np.float64], n: int) -> list[NDArray[np.float64]]:
    """Return n arrays of as many columns each, in C order, in the memory of the columns.

    Columns that are not next to each other there are copied; else only those of one array at a
    time.
    """
    if n == 1 or not weights.flags.f_contiguous:
        return np.split(weights, n, axis=1)
    found = []
    for part in weights.T.reshape(n, -1, len(weights)):
        vectors = part.reshape(len(weights), -1)
        if len(part) > 1:
            vectors[:] = part.T.copy()
        found.append(vectors)
    return found


@contextlib.contextmanager
def announced(
    listener: Listener, task: str, store: BlockStore, options: TrainOptions
) -> Iterator[dict[str, Any]]:
    """Report that a run starts, and that it ended: also why, if an exception ends it.

    Yields what its end is to be reported with; unchanged, the run came to no model.
    """
    started = time.perf_counter()
    end: dict[str, Any] = {"stopped": "ended without a model"}
    facts = _store_facts(store, classes=SOLVERS[options.solver].classifies)
    listener(RunStarted(task, facts, _settings(options), __version__))
    try:
        yield end
    except BaseException as error:
        why = error.what if isinstance(error, BlocklinearError) else type(error).__name__
        with contextlib.suppress(BlocklinearError):  # the first error is the one to be reported
            listener(RunEnded(why, time.perf_counter() - started, peak_bytes=peak_bytes()))
        raise
    seconds = time.perf_counter() - started
    listener(RunEnded(seconds=seconds, peak_bytes=peak_bytes(), **end))


def warn_of_weights(
    options: TrainOptions, labels: Collection[float], store: BlockStore, listener: Listener
) -> None:
    """Warn of weights of classes that change nothing."""
    if options.class_weights and SOLVERS[options.solver].regression:
        listener(Warned("weights of classes have no effect on a regression"))
        return
    for label, _ in options.class_weights:
        if label not in labels:
            listener(Warned(f"class {code_text(label, store.named)} has a weight, but no rows"))


def _store_facts(store: BlockStore, classes: bool) -> dict[str, Any]:
    """Return what `RunStarted` has of a store, with the classes if it is trained on for them."""
    m = store.manifest
    known = m.labels if classes else None
    given, counts = given_labels(known or (), store.named), m.label_counts if known else ()
    labels = [(label, n) for label, n in zip(given, counts, strict=True) if n]
    most = sorted(labels, key=lambda found: -found[1])[:MOST_LABELS]
    return {
        "path": store.name,
        "rows": m.n_rows,
        "features": m.dimension,
        "nnz": m.nnz,
        "blocks": len(m.blocks),
        "bytes": sum(block.bytes for block in m.blocks),
        "classes": None if known is None else len(labels),
        "labels": [{"label": label, "rows": rows} for label, rows in most],
        "batches": len(m.batches),
        "last_batches": [
            {"name": batch["name"], "rows": batch["rows"]} for batch in m.batches[-MOST_BATCHES:]
        ],
        "hash_bits": m.hash_bits,
        "normalize": m.normalize,
        "weighted": m.weighted,
        "fingerprint": m.fingerprint,
    }


def _settings(options: TrainOptions) -> dict[str, Any]:
    """Return options as JSON has them: infinite ones are None."""
    settings = dataclasses.asdict(options)
    del settings["evaluate_text"]
    if options.evaluate is not None:
        settings["evaluate"] = shown_name(options.evaluate)
    for name, value in settings.items():
        if isinstance(value, float) and not math.isfinite(value):
            settings[name] = None
        elif isinstance(value, tuple):
            settings[name] = [list(v) if isinstance(v, tuple) else v for v in value]
    return settings
