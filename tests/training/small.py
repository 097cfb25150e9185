"""Small problems: dense, as stores, and their optimum by scikit-learn."""

from dataclasses import dataclass

import numpy as np
import reference
from sklearn.svm import LinearSVC

from blocklinear.options import SplitOptions, TextOptions, TrainOptions
from blocklinear.store.split import split

MEMORY_BYTES = 1 << 30


@dataclass(frozen=True)
class Problem:
    """Rows, X float64[n, d], with their labels, and how they are trained on."""

    X: np.ndarray
    labels: np.ndarray
    solver: int = 1
    cost: float = 1.0
    bias: float = -1.0
    class_weights: tuple[tuple[float, float], ...] = ()

    @property
    def squared(self):
        return self.solver == 1

    @property
    def rows(self):
        """X with the bias feature as its last column, even where its value is 0."""
        column = np.full((len(self.X), 1), max(self.bias, 0.0))
        return np.hstack([self.X, column])

    def options(self, **options):
        own = {
            "solver": self.solver, "cost": self.cost, "bias": self.bias,
            "class_weights": self.class_weights, "threads": 2, "memory_bytes": MEMORY_BYTES,
        }  # fmt: skip
        return TrainOptions(**(own | options))

    def costs(self):
        weights = dict(self.class_weights)
        return self.cost * np.array([weights.get(label, 1.0) for label in self.labels])

    def primal_of(self, model):
        """P of a model by the dense formula; its first label is the positive class."""
        w = np.zeros(self.rows.shape[1])
        w[: model.n_features] = model.weights[:, 0]
        w[-1] = model.bias_weights[0]
        return self.primal(w, model.labels[0])

    def primal(self, w, positive):
        y = np.where(self.labels == positive, 1.0, -1.0)
        return reference.primal_value(self.rows, y, self.costs(), w, self.squared)

    def optimum(self):
        """P of what LIBLINEAR finds at a tight tolerance: never below the true optimum."""
        svc = LinearSVC(
            C=self.cost,
            loss="squared_hinge" if self.squared else "hinge",
            dual=not self.squared,
            tol=1e-12 if self.squared else 1e-8,
            max_iter=200_000,
            fit_intercept=False,
            class_weight=dict(self.class_weights) or None,
            random_state=0,
        )
        svc.fit(self.rows, self.labels)
        return self.primal(svc.coef_[0], svc.classes_[1])


def random_problem(seed):
    """A problem of any kind: with empty rows, empty features, a bias, weights of classes."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 50)), int(rng.integers(1, 9))
    X = rng.normal(size=(n, d)).round(3) * (rng.random((n, d)) < rng.choice([0.2, 0.6, 1.0]))
    X[:, rng.random(d) < 0.2] = 0.0
    X[0, 0] = 1.0
    y = np.where(X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = rng.permutation([1.0, -1.0])
    weights = ((1.0, 3.0), (-1.0, 0.5)) if seed % 3 == 0 else ()
    return Problem(
        X, y, solver=(1, 3)[seed % 2], cost=float(10 ** rng.uniform(-2, 1.5)),
        bias=float(rng.choice([-1.0, 0.0, 1.0, 2.5])), class_weights=weights,
    )  # fmt: skip


def as_text(X, labels):
    """LIBSVM text that reads back to the bit."""
    lines = []
    for label, row in zip(labels.tolist(), X.tolist(), strict=True):
        cells = [f"{j + 1}:{value!r}" for j, value in enumerate(row) if value]
        lines.append(" ".join([f"{label:g}", *cells]))
    return "\n".join(lines) + "\n"


def split_text(folder, text, blocks=2, name="store", **options):
    source = folder / f"{name}.svm"
    source.write_text(text)
    text_options = TextOptions(threads=2, memory_bytes=256 << 20)
    return split([source], folder / name, SplitOptions(text=text_options, blocks=blocks, **options))


def split_problem(folder, problem, blocks=2, **options):
    return split_text(folder, as_text(problem.X, problem.labels), blocks, **options)


class Heard(list):
    """A listener that remembers."""

    def __call__(self, event):
        self.append(event)

    def of(self, kind):
        return [event for event in self if isinstance(event, kind)]
