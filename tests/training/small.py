"""Small problems: dense, as stores, and their optimum by LIBLINEAR, through scikit-learn."""

import math
from dataclasses import dataclass, replace

import numpy as np
import reference
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, LinearSVR

from blocklinear.events import OuterIteration
from blocklinear.ingest.split import split
from blocklinear.objectives.problems import CRAMMER_SINGER, SOLVERS
from blocklinear.options import SplitOptions, TextOptions, TrainOptions
from blocklinear.training import train
from blocklinear.training.memory_plan import plan_memory
from blocklinear.training.run import Run
from blocklinear.training.stopping import Stopping

MEMORY_BYTES = 1 << 30
ALONE = [number for number in SOLVERS if number != CRAMMER_SINGER]
WITH_COST = [number for number in ALONE if not SOLVERS[number].one_class]
DUAL_SOLVERS = [number for number in WITH_COST if SOLVERS[number].name.endswith("DUAL")]
SELECTIONS = ("active", "permute", "shrink", "avsf", "online")
_SEEN = ("outer", "dual", "primal", "gap", "certified", "violation", "n_sv", "steps", "accuracy")


@dataclass(frozen=True)
class Problem:
    """Rows, X float64[n, d], with labels and perhaps weights, and how they are trained on."""

    X: np.ndarray
    labels: np.ndarray
    solver: int = 1
    cost: float = 1.0
    bias: float = -1.0
    class_weights: tuple[tuple[float, float], ...] = ()
    epsilon: float = 0.1
    l1_ratio: float = 1.0
    weights: np.ndarray | None = None

    @property
    def kind(self):
        return SOLVERS[self.solver].kind

    @property
    def regression(self):
        return SOLVERS[self.solver].regression

    @property
    def rows(self):
        """X with the bias feature as its last column, even where its value is 0."""
        column = np.full((len(self.X), 1), max(self.bias, 0.0))
        return np.hstack([self.X, column])

    def options(self, **options):
        own = {
            "solver": self.solver, "cost": self.cost, "bias": self.bias, "epsilon": self.epsilon,
            "l1_ratio": self.l1_ratio, "class_weights": self.class_weights, "threads": 2,
            "memory_bytes": MEMORY_BYTES,
        }  # fmt: skip
        return TrainOptions(**(own | options))

    def costs(self):
        weights = dict(self.class_weights)
        costs = self.cost * np.array([weights.get(label, 1.0) for label in self.labels.tolist()])
        return costs if self.weights is None else costs * self.weights

    def primal_of(self, model):
        """P of a model by the dense formula; its first label is the positive class."""
        w = np.zeros(self.rows.shape[1])
        w[: model.n_features] = model.weights[:, 0]
        w[-1] = model.bias_weights[0]
        return self.primal(w, model.labels[0] if model.labels else None)

    def primal(self, w, positive):
        t = self.labels if self.regression else np.where(self.labels == positive, 1.0, -1.0)
        value = reference.primal_value(self.rows, t, self.costs(), w, self.kind, self.epsilon)
        if SOLVERS[self.solver].l1:
            value += self.l1_ratio * (np.abs(w).sum() - 0.5 * w @ w)
        return value

    def optimum(self):
        """P of what LIBLINEAR finds at a tight tolerance: never below the true optimum."""
        dual, rows = self.solver in (3, 13), (self.rows, self.labels, self.weights)
        # Descent with L1 never sees 1e-12, and then does not look again at the features it left
        # out: after 200,000 passes P was up to 2.7 % above where 1e-10 ends.
        tolerance = 1e-8 if dual else 1e-10 if self.solver == 5 else 1e-12
        how = {
            "C": self.cost, "fit_intercept": False, "dual": dual, "tol": tolerance,
            "max_iter": 200_000, "random_state": 0,
        }  # fmt: skip
        if self.solver == 6:
            # Newton's method is at the last bits after some dozens, and seldom sees a tolerance
            # of 1e-12: all others change nothing
            how["max_iter"] = 2000
        if self.regression:
            loss = ("squared_" if self.solver != 13 else "") + "epsilon_insensitive"
            found = LinearSVR(epsilon=self.epsilon, loss=loss, **how).fit(*rows)
            return self.primal(found.coef_.ravel(), None)
        how["class_weight"] = dict(self.class_weights) or None
        l1 = SOLVERS[self.solver].l1
        if self.solver in (0, 6, 7):
            newer = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
            how |= ({"l1_ratio": 1.0} if newer else {"penalty": "l1"}) if l1 else {}
            found = LogisticRegression(solver="liblinear", **how).fit(*rows)
        else:
            loss = "hinge" if self.solver == 3 else "squared_hinge"
            found = LinearSVC(loss=loss, penalty="l1" if l1 else "l2", **how).fit(*rows)
        return self.primal(found.coef_[0], found.classes_[1])


def newton_after(monkeypatch, outer):
    """Let Newton's method go on after so many outer iterations of coordinate descent."""
    monkeypatch.setattr(Stopping, "remaining", lambda self, report, took: math.inf)
    monkeypatch.setattr(
        Stopping, "too_many", lambda self, report, remaining, took, instead: report.outer >= outer
    )


def descent_alone(monkeypatch):
    """Let no other method go on after coordinate descent."""
    monkeypatch.setattr(Run, "may_switch", False)


def random_problem(seed, solver=None):
    """A problem of any kind: with empty rows, empty features, a bias, weights of classes."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 50)), int(rng.integers(1, 9))
    X = rng.normal(size=(n, d)).round(3) * (rng.random((n, d)) < rng.choice([0.2, 0.6, 1.0]))
    X[:, rng.random(d) < 0.2] = 0.0
    X[0, 0] = 1.0
    value = X @ rng.normal(size=d) + 0.5 * rng.normal(size=n)
    solver = DUAL_SOLVERS[seed % len(DUAL_SOLVERS)] if solver is None else solver
    if SOLVERS[solver].regression:
        weights, labels = (), value.round(2) + rng.integers(-2, 3)
    else:
        weights = ((1.0, 3.0), (-1.0, 0.5)) if seed % 3 == 0 else ()
        labels = np.where(value > 0, 1.0, -1.0)
        labels[:2] = rng.permutation([1.0, -1.0])
    return Problem(
        X, labels, solver, cost=float(10 ** rng.uniform(-2, 1.5)),
        bias=float(rng.choice([-1.0, 0.0, 1.0, 2.5])), class_weights=weights,
        epsilon=float(rng.choice([0.0, 0.1, 0.7])),
    )  # fmt: skip


def long_problem(solver=3, n_rows=200, n_features=80):
    """A problem whose arrays are too long for the checkpoint itself, noisy enough to take long."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n_rows, n_features)).round(2) * (rng.random((n_rows, n_features)) < 0.2)
    value = X @ rng.normal(size=n_features) + 2.0 * rng.normal(size=n_rows)
    labels = value.round(1) if SOLVERS[solver].regression else np.where(value > 0, 1.0, -1.0)
    return Problem(X, labels, solver, cost=1.0, bias=1.0)


def as_text(X, labels):
    """LIBSVM text that reads back to the bit."""
    lines = []
    for label, row in zip(labels.tolist(), X.tolist(), strict=True):
        cells = [f"{j + 1}:{value!r}" for j, value in enumerate(row) if value]
        lines.append(" ".join([f"{label!r}", *cells]))
    return "\n".join(lines) + "\n"


def split_text(folder, text, blocks=2, name="store", **options):
    source = folder / f"{name}.svm"
    source.write_text(text)
    text_options = TextOptions(threads=2, memory_bytes=256 << 20)
    return split([source], folder / name, SplitOptions(text=text_options, blocks=blocks, **options))


def split_problem(folder, problem, blocks=2, **options):
    if problem.weights is not None:
        options["weights"] = str(folder / "weights.txt")
        (folder / "weights.txt").write_text("".join(f"{x!r}\n" for x in problem.weights.tolist()))
    return split_text(folder, as_text(problem.X, problem.labels), blocks, **options)


class Heard(list):
    """A listener that remembers."""

    def __call__(self, event):
        self.append(event)

    def of(self, kind):
        return [event for event in self if isinstance(event, kind)]


def without_pins(store, options):
    """The same options with just the memory that is needed: no block stays decoded."""
    while spare := plan_memory(store.manifest, options).pin_bytes:
        options = replace(options, memory_bytes=options.memory_bytes - spare)
    return options


def outcome(store, options, halt=lambda: False, listener=lambda event: None, heard=None):
    """All that a run says about itself but for times: its model, and what each iteration saw.

    An outer iteration may be told of again after a resume; the first time counts. `heard` takes
    what was seen, also of a run that does not end.
    """
    heard = {} if heard is None else heard

    def listen(event):
        if isinstance(event, OuterIteration):
            heard.setdefault(event.outer, tuple(getattr(event, name) for name in _SEEN))
        listener(event)

    model = train(store, options, listen, halt)
    told = {name: value for name, value in model.metadata.items() if name != "memory_bytes"}
    return (model.weights.tobytes(), model.bias_weights.tobytes(), repr(told)), heard
