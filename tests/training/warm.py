"""Stores that change, and runs on them that start warm and from scratch."""

from dataclasses import dataclass, replace

import numpy as np

from blocklinear.events import WarmStarted, Warned
from blocklinear.ingest.add import add
from blocklinear.model.linear import LinearModel
from blocklinear.options import AddOptions, TextOptions, TrainOptions
from blocklinear.training import train
from training.small import MEMORY_BYTES, Heard, as_text

DRIFT = 1e-9


def rows(seed, n_rows=60, n_features=12, classes=(1.0, -1.0), values=False):
    """LIBSVM text of noisy rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).round(2) * (rng.random((n_rows, n_features)) < 0.5)
    W = np.random.default_rng(99).normal(size=(40, max(len(classes), 2)))[:n_features]
    scores = X @ W + 0.8 * rng.normal(size=(n_rows, W.shape[1]))
    if values:
        return as_text(X, scores[:, 0].round(1))
    labels = np.array(classes)[scores.argmax(axis=1)]
    labels[: len(classes)] = classes
    return as_text(X, labels)


def more(store, text, name, blocks=2):
    path = store.folder.parent / f"{name}.svm"
    path.write_text(text)
    text_options = TextOptions(threads=1, memory_bytes=256 << 20, index_base="auto")
    options = AddOptions(text_options, batch=name, blocks=blocks, allow_duplicate=True)
    return add(store, [path], options)


def how(solver=1, **options):
    own = {"solver": solver, "gap": 1e-7, "group": 2, "memory_bytes": MEMORY_BYTES, "threads": 2}
    own |= {"method": "newton"} if solver in (0, 2, 11) else {}
    return TrainOptions(**(own | options))


@dataclass
class Found:
    model: LinearModel
    started: WarmStarted | None
    warnings: list[str]


def trained(store, options):
    heard = Heard()
    model = train(store, options, heard)
    started = heard.of(WarmStarted)
    return Found(model, *(started or [None]), [event.message for event in heard.of(Warned)])


def check(store, options):
    """Train warm and from scratch; the one may not be worse, and must hold all that it says."""
    warm = trained(store, replace(options, warm_start=True))
    cold = trained(store, replace(options, warm_start=False, run="cold"))
    check_proofs(warm.model, cold.model, options.gap)
    return warm


def check_proofs(warm, cold, gap):
    """Two models of the same problem must hold what they say: neither is worse by more."""
    proofs = [
        model.metadata.get("certificates") or [model.metadata["certificate"]]
        for model in (warm, cold)
    ]
    for ours, theirs in zip(*proofs, strict=True):
        assert ours["gap"] <= gap
        assert ours["drift"] <= DRIFT
        scale = max(ours["primal"], 1e-12)
        assert abs(ours["primal"] - theirs["primal"]) <= gap * scale
        assert theirs["dual"] <= ours["primal"] * (1 + 1e-12)
