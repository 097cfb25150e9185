"""What a certificate says after any change of a problem is true, by an independent optimum.

A store and a run on it go through random changes: C and grids of it, weights of classes, rows of
other weights and other classes that come and go, another loss. After each, training starts from
what the run left, and stops early or late.

``BLOCKLINEAR_TRANSITIONS`` says how many changes to try (60), with and without primal solvers.
"""

import os
from dataclasses import replace

import numpy as np
import optima
import pytest
import reference

from blocklinear import train_grid
from blocklinear.errors import InputError
from blocklinear.ingest.add import add
from blocklinear.objectives.problems import CRAMMER_SINGER, SOLVERS
from blocklinear.options import AddOptions, TextOptions, TrainOptions
from blocklinear.store.changes import remove
from blocklinear.store.features import read_features
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.store import BlockStore
from blocklinear.training import train
from training.small import MEMORY_BYTES, as_text, split_text

N_TRANSITIONS = int(os.environ.get("BLOCKLINEAR_TRANSITIONS", "60"))
A_HISTORY = 10
FIRST = 24
"""Of the histories: in this one alpha was left above its bound, when a certificate trusted it."""
N_FEATURES = 40
FAMILIES = ((3, 1, 7), (CRAMMER_SINGER,), (13, 12))
PRIMAL = {3: (0, 2), CRAMMER_SINGER: (), 13: (11,)}
"""What solves the same on the primal, by the first of a family."""
CLASSES = ((1.0, 2.0), (1.0, 2.0, 3.0), (2.0, 3.0), (3.0, 4.0, 1.0))


class History:
    """A store that changes, and what is trained on it."""

    def __init__(self, folder, seed, primal=False):
        self.folder, self.rng, self.n_texts = folder, np.random.default_rng(seed), 0
        self.solvers = FAMILIES[seed % len(FAMILIES)]
        self.solvers += PRIMAL[self.solvers[0]] if primal else ()
        self.weighted, self.apart = bool(seed % 2), bool(self.rng.random() < 0.5)
        self.n_rows, self.costs = 0, ()
        text, options = self.text(CLASSES[int(self.rng.integers(2))])
        split_text(folder, text, int(self.rng.integers(1, 4)), **options)
        self.options = TrainOptions(
            solver=self.solvers[0], memory_bytes=MEMORY_BYTES, threads=1, max_outer=300, group=1,
            bias=-1.0 if self.apart else float(self.rng.choice([-1.0, 1.0])), gap=1e-6,
        )  # fmt: skip

    @property
    def store(self):
        return BlockStore.open(self.folder / "store")

    def text(self, classes):
        """Return text of some rows, and the options that give them weights."""
        rng, n = self.rng, int(self.rng.integers(4, 14))
        X = np.zeros((n, N_FEATURES))
        X[:, :5] = rng.normal(size=(n, 5)).round(2) * (rng.random((n, 5)) < 0.6)
        labels = rng.choice(classes, n)
        labels[: len(classes)] = classes
        X[np.arange(n), labels.astype(int) % 5] += rng.choice([0.0, 1.0, 3.0])
        if self.apart:  # rows have nothing in common: gradients are 0, whatever bounds alpha
            X = np.roll(np.eye(n, N_FEATURES), self.n_rows % N_FEATURES, axis=1)
        self.n_rows += n
        if self.solvers[0] == 13:
            labels = (2.0 * X[:, 0] - X[:, 1] + rng.normal(size=n)).round(2)
        self.n_texts += 1
        path = self.folder / f"weights{self.n_texts}"
        path.write_text("".join(f"{x!r}\n" for x in rng.choice([0.5, 1.0, 1.0, 30.0], n).tolist()))
        return as_text(X, labels), {"weights": str(path)} if self.weighted else {}

    def change(self):
        """Change something, or how long and in which order training goes on."""
        rng, kind = self.rng, self.rng.integers(8)
        if self.costs and rng.random() < 0.7:
            kind = 8  # the next run is then one of the C of this grid
        blocks, batches = self.store.manifest.blocks, self.store.manifest.batches
        if kind == 0:
            text, options = self.text(CLASSES[int(rng.integers(len(CLASSES)))])
            path = self.folder / "more.svm"
            path.write_text(text)
            how = TextOptions(threads=1, memory_bytes=256 << 20, index_base="auto")
            add(self.store, [path], AddOptions(how, blocks=int(rng.integers(1, 3)), **options))
        elif kind == 1 and len(batches) > 1:
            name = batches[int(rng.integers(len(batches)))]["name"]
            if any(block.rows for block in blocks if block.batch != name):
                remove(self.store, [name])
        elif kind == 2 and sum(block.rows > 0 for block in blocks) > 2:
            remove(self.store, blocks=[blocks[int(rng.integers(len(blocks)))].name])
        elif kind == 3:
            solver = int(rng.choice(self.solvers))
            self.options = replace(self.options, solver=solver, method="dual", selection="active")
        elif kind == 4 and self.solvers[0] != 13:
            label = float(rng.integers(1, 4))
            weights = ((label, float(rng.choice([0.05, 3.0, 20.0]))),) * int(rng.integers(2))
            self.options = replace(self.options, balanced=False, class_weights=weights)
        elif kind == 5 and self.solvers[0] != 13:
            self.options = replace(self.options, balanced=True, class_weights=())
        elif kind < 8:
            self.options = replace(self.options, cost=float(10.0 ** rng.uniform(-2, 1)))
        self.options = replace(
            self.options,
            gap=float(rng.choice([1e-2, 1e-4, 1e-6])), max_outer=int(rng.choice([1, 3, 300])),
            group=rng.choice([1, 2, None]),
        )  # fmt: skip
        selection = str(rng.choice(["active", "permute"]))
        if self.options.method == "dual":
            self.options = replace(self.options, selection=selection)

    def train(self):
        """Train warm, or a grid, which does not start warm but is started from; check it all."""
        costs = self.costs = ()
        if self.options.solver != CRAMMER_SINGER and self.rng.random() < 0.35:
            others = 10.0 ** self.rng.uniform(-2, 1.5, int(self.rng.integers(1, 3)))
            costs = self.costs = (self.options.cost, *others.tolist())
        try:
            if costs:
                models = train_grid(self.store, replace(self.options, costs=costs))
            else:
                models = [train(self.store, replace(self.options, warm_start=True))]
        except InputError:  # one class is left
            return
        for model, cost in zip(models, costs or [self.options.cost], strict=True):
            for bounds, primal, proof in self.proven(model, replace(self.options, cost=cost)):
                least, most = bounds
                assert most - least <= 1e-9 * most
                assert proof["dual"] <= most * (1 + 1e-9)
                assert proof["primal"] == pytest.approx(primal, rel=1e-9)
                assert primal - most <= (proof["gap"] + 1e-13) * primal
                assert proof["primal"] - proof["dual"] <= proof["gap"] * proof["primal"]

    def rows(self):
        """Dense rows with the bias feature, their labels and weights."""
        store, (X, labels, weights) = self.store, ([], [], [])
        columns = read_features(store.folder, store.manifest) - 1
        with GroupLoader(store, 1, 1) as loader:
            for loaded in loader.stream([(b,) for b in range(len(store.manifest.blocks))]):
                group = loaded.group
                for i in range(group.n_rows):
                    row, part = np.zeros(N_FEATURES + 1), slice(*group.indptr[i : i + 2])
                    row[columns[group.indices[part]]] = group.values[part]
                    row[-1] = max(self.options.bias, 0.0)
                    X.append(row)
                labels += group.labels.tolist()
                weights += [1.0] * group.n_rows if group.weights is None else group.weights.tolist()
        return np.array(X), np.array(labels), np.array(weights)

    def proven(self, model, options):
        """Yield, of each model, bounds of its optimum, its P by the dense formula, its proof."""
        X, labels, weights = self.rows()
        W = np.zeros((N_FEATURES + 1, model.weights.shape[1]))
        W[: model.n_features], W[-1] = model.weights, model.bias_weights
        of_class = {label: 1.0 for label in model.labels}
        if options.balanced:
            total, sums = weights.sum(), {k: weights[labels == k].sum() for k in model.labels}
            of_class = {k: total / (len(sums) * part) for k, part in sums.items()}
        for label, weight in options.class_weights:
            of_class[label] = of_class.get(label, 1.0) * weight
        proofs = model.metadata.get("certificates") or [model.metadata["certificate"]]
        C = options.cost * weights
        if options.solver == CRAMMER_SINGER:
            code = np.array([model.labels.index(k) for k in labels])
            cost = C * np.array([of_class[k] for k in labels])
            primal = optima.primal_value(X, code, cost, W)
            yield optima.crammer_singer(X, code, cost, len(model.labels)), primal, *proofs
            return
        kind, epsilon = SOLVERS[options.solver].kind, options.epsilon
        for j, proof in enumerate(proofs):
            t, cost = labels, C
            if model.labels:
                own, both = model.labels[j], len(model.labels) == 2
                t = np.where(labels == own, 1.0, -1.0)
                other = of_class[model.labels[1]] if both else 1.0
                cost = C * np.where(labels == own, of_class[own], other)
            primal = reference.primal_value(X, t, cost, W[:, j], kind, epsilon)
            yield optima.optimum(X, t, cost, kind, epsilon), primal, proof


@pytest.mark.parametrize("primal", [False, True])
@pytest.mark.parametrize("seed", range(FIRST, FIRST - (-N_TRANSITIONS // A_HISTORY)))
def test_what_is_certified_after_changes_is_true(tmp_path, seed, primal):
    history = History(tmp_path, seed, primal)
    train(history.store, history.options)
    for _ in range(A_HISTORY):
        history.change()
        history.train()
