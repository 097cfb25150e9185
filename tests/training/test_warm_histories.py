"""Random histories of a store and of warm starts on it: each ends where training from scratch does.

``BLOCKLINEAR_HISTORIES`` says how many histories to try (15).
"""

import contextlib
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from blocklinear.errors import InputError, StoppedError
from blocklinear.ingest.add import add
from blocklinear.ingest.compact import compact
from blocklinear.options import AddOptions, TextOptions, TrainOptions
from blocklinear.store.changes import remove
from blocklinear.store.store import BlockStore
from blocklinear.training import train
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.garbage import collect_garbage
from training.small import MEMORY_BYTES, as_text, split_text

N_HISTORIES = int(os.environ.get("BLOCKLINEAR_HISTORIES", "15"))
GAP, DRIFT = 1e-6, 1e-9
CHOICES = {
    "cost": st.sampled_from([0.1, 1.0, 4.0]),
    "bias": st.sampled_from([-1.0, 1.0]),
    "class_weights": st.sampled_from([(), ((1.0, 3.0),), ((2.0, 0.5), (3.0, 2.0))]),
    "group": st.sampled_from([1, 2, 3, None]),
    "seed": st.integers(0, 3),
    "selection": st.sampled_from(["active", "permute"]),
}


def drawn_rows(seed, n_rows, n_features, classes):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).round(2) * (rng.random((n_rows, n_features)) < 0.5)
    labels = rng.choice(classes, n_rows)
    labels[: len(classes)] = classes
    X[np.arange(n_rows), labels.astype(int) % n_features] += 1.0
    return as_text(X, labels)


class Warm(RuleBasedStateMachine):
    """A store that changes, and a run that is started from what it left, again and again."""

    def __init__(self):
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name)
        self.n_texts = 0

    def teardown(self):
        self._folder.cleanup()

    @property
    def store(self):
        return BlockStore.open(self.path / "store")

    @initialize(blocks=st.integers(2, 6), changes=st.fixed_dictionaries(CHOICES))
    def split(self, blocks, changes):
        split_text(self.path, drawn_rows(0, 40, 6, [1.0, 2.0]), blocks)
        own = {"solver": 1, "gap": GAP, "memory_bytes": MEMORY_BYTES, "threads": 1}
        self.options = TrainOptions(**own, **changes)
        self.train()

    @rule(
        n_rows=st.integers(3, 30), n_features=st.integers(4, 10), blocks=st.integers(1, 3),
        classes=st.sampled_from([[1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0]]),
    )  # fmt: skip
    def add(self, n_rows, n_features, blocks, classes):
        self.n_texts += 1
        source = self.path / "more.svm"
        source.write_text(drawn_rows(self.n_texts, n_rows, n_features, classes))
        text = TextOptions(threads=1, memory_bytes=256 << 20, index_base="auto")
        add(self.store, [source], AddOptions(text, blocks=blocks))

    @precondition(lambda self: len(self.store.manifest.batches) > 1)
    @rule(data=st.data())
    def remove_a_batch(self, data):
        name = data.draw(st.sampled_from([b["name"] for b in self.store.manifest.batches]))
        if any(block.rows for block in self.store.manifest.blocks if block.batch != name):
            remove(self.store, [name])

    @rule(data=st.data())
    def remove_a_block(self, data):
        blocks = self.store.manifest.blocks
        gone = data.draw(st.sampled_from(blocks))
        if any(block.rows for block in blocks if block is not gone):
            remove(self.store, blocks=[gone.name])

    @rule(size=st.integers(500, 5000))
    def compact(self, size):
        compact(self.store, size)

    @rule()
    def gc(self):
        collect_garbage(self.store)

    @rule(changes=st.fixed_dictionaries({}, optional=CHOICES))
    def other_options(self, changes):
        self.options = replace(self.options, **changes)

    @rule(solver=st.sampled_from([1, 3, 4]))
    def another_solver(self, solver):
        gap = {1: GAP, 3: 1e-4, 4: 1e-4}[solver]
        self.options = replace(self.options, solver=solver, gap=gap)

    @rule(visits=st.integers(1, 6))
    def break_off(self, visits):
        """Start warm, stop after some visits; what comes then starts from there."""
        left = iter(range(visits))
        options = replace(self.options, warm_start=True)
        with contextlib.suppress(StoppedError, InputError):
            train(self.store, options, halt=lambda: next(left, None) is None)

    @rule()
    def train(self):
        try:
            cold = train(self.store, replace(self.options, run="cold"))
        except InputError:  # one class is left
            return
        warm = train(self.store, replace(self.options, warm_start=True))
        proofs = [
            model.metadata.get("certificates") or [model.metadata["certificate"]]
            for model in (warm, cold)
        ]
        for ours, theirs in zip(*proofs, strict=True):
            assert ours["gap"] <= self.options.gap
            assert ours["drift"] <= DRIFT
            scale = max(ours["primal"], theirs["primal"])
            assert abs(ours["primal"] - theirs["primal"]) <= self.options.gap * scale
        facts = Checkpoint(self.store.folder / "runs" / "default").facts
        assert facts["store"] == self.store.manifest.fingerprint


Warm.TestCase.settings = settings(
    max_examples=N_HISTORIES,
    stateful_step_count=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


TestWarm = Warm.TestCase
