"""Newton's method on the primal of smooth losses, for one model or many that share the passes.

An outer iteration is one pass over the data: of each model it evaluates a point, or multiplies the
Hessian by a vector. Evaluating a point gives its certificate for nothing: alpha_i =
-s_i C_i loss_i'(w'x_i) is dual feasible, and P(w) - D(alpha) = 1/2 |gradient|**2, with
w' = sum s_i alpha_i x_i from the same pass. What rounding may do to both is added, as in
`objectives.certificate`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import primal as kernels
from blocklinear.kernels.losses import N_REACHES, N_SUMS
from blocklinear.kernels.sums import dot
from blocklinear.objectives.certificate import Certificate, aligned_zeros, joined
from blocklinear.objectives.feasible_sets import EachClass, FeasibleSet, OneModel
from blocklinear.objectives.models import Models
from blocklinear.objectives.problems import Problem
from blocklinear.objectives.tasks import Task
from blocklinear.options import TrainOptions
from blocklinear.solvers.columns import models_by_pass, padded
from blocklinear.solvers.newton_iterate import VECTORS, NewtonIterate
from blocklinear.solvers.protocol import Estimate, Solver, Start
from blocklinear.store.groups import Group, RowView, first_positions, rows_of
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.store.row_arrays import RowArray

Floats = NDArray[np.float64]


class NewtonPass(ABC):
    """Models that share each pass over rows, a column for each.

    Parameters
    ----------
    n : int
        Weights of a model, that of the bias feature included.
    width : int
        Models.
    options : TrainOptions
    alpha : RowArray
        float64, a column for each model.
    enough_products : float
        As for `NewtonIterate`.

    Attributes
    ----------
    models : list of NewtonIterate
    V : float64[n, P]         what a pass works on, a column for each model that takes part
    """

    def __init__(
        self,
        n: int,
        width: int,
        options: TrainOptions,
        alpha: RowArray,
        enough_products: float,
    ) -> None:
        self.bias, self.alpha = max(options.bias, 0.0), alpha
        self._vectors = {name: np.zeros((width, n)) for name in VECTORS}
        self.models = [
            NewtonIterate(
                {name: rows[k] for name, rows in self._vectors.items()},
                self.bias,
                options.regularize_bias,
                options.max_outer or math.inf,
                enough_products,
            )
            for k in range(width)
        ]
        self._active = list(range(width))
        self._n_rows = 0  # seen in the pass under way
        self._prepared, self._begun = False, False
        self._make_room()

    def _make_room(self) -> None:
        """Allocate what the models that take part in a pass need."""
        n, width = len(self.models[0].w), len(self._active)
        self.V = aligned_zeros(n, padded(width))
        self._out, self._diagonal = (aligned_zeros(*self.V.shape) for _ in range(2))
        self._sums, self._reach = np.zeros((width, N_SUMS)), np.zeros((width, N_REACHES))
        self._scratch = aligned_zeros(kernels.N_SCRATCH, padded(width))
        self._hessians = np.zeros((0, 0, 0))

    @property
    @abstractmethod
    def feasible_set(self) -> FeasibleSet:
        """Where alpha may be."""

    @abstractmethod
    def _pass_over(self, rows: RowView, alpha: Floats, evaluates: NDArray[np.bool_]) -> None:
        """Add what rows contribute for the models that take part; write or read their alpha."""

    @property
    def taking_part(self) -> list[NewtonIterate]:
        """The models that take part in the pass, in the order of their columns."""
        return [self.models[k] for k in self._active]

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        return {
            "active": self._active, "rows": self._n_rows, "hessians": len(self._hessians),
            "models": [model.state for model in self.models],
        }  # fmt: skip

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        if not set(state["active"]) <= set(range(len(self.models))):
            raise ValueError("the models of the state are not those of the run")
        for model, own in zip(self.models, state["models"], strict=True):
            model.state = own
        self._begun = True
        self._active, self._n_rows = list(state["active"]), state["rows"]
        self._make_room()
        if state["hessians"]:
            self._make_hessians()

    def _make_hessians(self) -> None:
        n = len(self.V)
        self._hessians = np.zeros((len(self._active), n, n))

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        arrays: dict[str, NDArray[Any]] = {
            "alpha": self.alpha.all, "out": self._out, "diagonals": self._diagonal,
            "sums": self._sums, "reach": self._reach,
        }  # fmt: skip
        return (
            arrays | self._vectors | ({"hessians": self._hessians} if len(self._hessians) else {})
        )

    def start_from(self, points: Floats) -> None:
        """Begin at points, float64[n, M]."""
        for k, model in enumerate(self.models):
            model.trial[:] = points[:, k]
        self._begun = True

    def begin(self, active: list[int]) -> None:
        """Start a pass for some of the models."""
        if not self._begun:
            self.start_from(self.V)  # where a warm start may have put them
        if active != self._active:
            self._active = active
            self._make_room()
        self._out[:] = self._diagonal[:] = 0.0
        self._sums[:] = self._reach[:] = 0.0
        self._n_rows = 0
        wanted = any(model.evaluates and model.direct for model in self.taking_part)
        if wanted and not len(self._hessians):
            self._make_hessians()
        self._hessians[:] = 0.0
        self._prepare()

    def _prepare(self) -> None:
        for column, model in enumerate(self.taking_part):
            self.V[:, column] = model.point
        self._norms = np.array([model.magnitude for model in self.taking_part])
        self._evaluates = np.array([model.evaluates for model in self.taking_part], np.bool_)
        self._prepared = True

    def step(self, group: Group, first: NDArray[np.int64]) -> None:
        """Add what a group contributes to the pass."""
        if not self._active:
            return
        if not self._prepared:  # after a resume
            self._prepare()
        alpha = self.alpha.read(group.blocks).reshape(group.n_rows, -1)
        mine = np.ascontiguousarray(alpha[:, self._active])
        self._pass_over(rows_of(group, first), mine, self._evaluates)
        if self._evaluates.any():
            alpha[:, self._active] = mine
            self.alpha.write(group.blocks, alpha.reshape(self.alpha.shape_of(group.n_rows)))
        self._n_rows += group.n_rows

    def end(self, passes: int) -> None:
        """Let each model that takes part draw its consequence."""
        with np.errstate(all="ignore"):  # what overflows is noticed in certificates
            for column, model in enumerate(self.taking_part):
                of = np.ascontiguousarray(self._out[:, column])
                if not model.evaluates:
                    model.multiplied(of, passes)
                    continue
                whole = len(self._hessians) > 0 and model.direct
                model.evaluated(
                    of, self._diagonal[:, column],
                    self._hessians[column] if whole else np.zeros((0, 0)),
                    self._sums[column], self._reach[column], self._n_rows,
                )  # fmt: skip
        for k, model in enumerate(self.models):
            if k not in self._active:
                model.new = False


class OnePass(NewtonPass):
    """One model.

    Parameters
    ----------
    problem : Problem
    n, options, alpha, enough_products :        as for `NewtonPass`
    """

    def __init__(
        self,
        problem: Problem,
        n: int,
        options: TrainOptions,
        alpha: RowArray,
        enough_products: float,
    ) -> None:
        super().__init__(n, 1, options, alpha, enough_products)
        self._problem = problem

    @property
    def feasible_set(self) -> OneModel:
        """Where alpha may be."""
        return OneModel(self._problem)

    def _pass_over(self, rows: RowView, alpha: Floats, evaluates: NDArray[np.bool_]) -> None:
        problem, entries = self._problem, (rows.starts, rows.stops, rows.indices, rows.values)
        cost, v, out = problem.costs(rows), self.V.reshape(-1), self._out.reshape(-1)
        if not evaluates[0]:
            kernels.hessian_rows(*entries, cost, problem.kind, self.bias, alpha.reshape(-1), v, out)
            return
        kernels.gradient_rows(
            *entries, rows.sq_norm, problem.targets(rows.labels), cost, problem.kind,
            problem.epsilon, self.bias, v, float(self._norms[0]), alpha.reshape(-1), out,
            self._diagonal.reshape(-1), self._hessians[0] if len(self._hessians) else _NONE,
            self._sums[0], self._reach[0],
        )  # fmt: skip


class ManyPass(NewtonPass):
    """Several models.

    Parameters
    ----------
    models : Models
    n, options, alpha, enough_products :        as for `NewtonPass`
    """

    def __init__(
        self,
        models: Models,
        n: int,
        options: TrainOptions,
        alpha: RowArray,
        enough_products: float,
    ) -> None:
        super().__init__(n, len(models), options, alpha, enough_products)
        self._all = models

    @property
    def feasible_set(self) -> EachClass:
        """Where alpha may be."""
        return EachClass(self._all)

    def _pass_over(self, rows: RowView, alpha: Floats, evaluates: NDArray[np.bool_]) -> None:
        models = self._all.some(np.array(self._active))
        kernels.newton_many(
            rows.starts, rows.stops, rows.indices, rows.values, rows.sq_norm, *models.data(rows),
            models.positive, models.held_out, models.cost, models.kind, models.epsilon, self.bias,
            evaluates, self.V, self._norms, alpha, self._out, self._diagonal, self._hessians,
            self._scratch, self._sums, self._reach,
        )  # fmt: skip


_NONE = np.zeros((0, 0))


class Newton:
    """Newton's method for a task.

    Parameters
    ----------
    task : Task
    passes : sequence of NewtonPass
        Each is worked on by one thread.
    numbers : list of int64[]
        Of the models of each; not used of one problem.
    manifest : Manifest
    options : TrainOptions
    before : Solver or None
        What led here; its scratch files are deleted with these.

    Attributes
    ----------
    bias : float              value of the bias feature, 0 for none
    """

    permutes = starts_from_w = True
    updates: Floats | None = None
    first_violation: Floats | None = None

    def __init__(
        self,
        task: Task,
        passes: Sequence[NewtonPass],
        numbers: Sequence[NDArray[np.int64]],
        manifest: Manifest,
        options: TrainOptions,
        before: Solver | None = None,
    ) -> None:
        self._task, self._passes, self._numbers, self._before = task, passes, numbers, before
        self._options, self.bias = options, passes[0].bias
        self._first = first_positions(manifest)
        self._scales = tolerance_scales(task, manifest)
        self._adopted: Floats | None = None
        self._threads = ThreadPoolExecutor(min(options.threads, len(passes)), "newton")

    @property
    def _models(self) -> list[NewtonIterate]:
        """All models, in their order."""
        if isinstance(self._task, Problem):
            return self._passes[0].models
        found: list[Any] = [None] * len(self._task)
        for part, numbers in zip(self._passes, self._numbers, strict=True):
            for number, model in zip(numbers.tolist(), part.models, strict=True):
                found[number] = model
        return found

    def start_from(self, weights: Floats, proven: Sequence[Certificate | None]) -> None:
        """Begin at weights, float64[n, M]; work no more on the models that are proven."""
        for part, numbers in zip(self._passes, self._numbers, strict=True):
            part.start_from(weights[:, numbers])
        for j, (model, certificate) in enumerate(zip(self._models, proven, strict=True)):
            if certificate is not None:
                model.w[:], model.certificate = weights[:, j], certificate

    def _violations(self) -> Floats:
        """Return |gradient| as LIBLINEAR's ``-e`` is compared with it, float64[M]."""
        found = [
            math.sqrt(dot(model.gradient, model.gradient)) / (model.first * scale)
            if model.first * scale > 0.0
            else 0.0
            for model, scale in zip(self._models, self._scales.tolist(), strict=True)
        ]
        return np.array(found)

    def _unsolved(self) -> NDArray[np.bool_]:
        """Return which models are not as good as was asked for, and can become better; bool[M]."""
        gap, tolerance = self._options.gap, self._options.tolerance
        wanting = np.array(
            [
                model.certificate is None or (gap is not None and model.certificate.gap > gap)
                for model in self._models
            ]
        )
        if tolerance is not None:
            wanting |= self._violations() > tolerance
        return np.asarray(wanting & ~np.array([model.final for model in self._models]))

    def __len__(self) -> int:
        return int(self._unsolved().sum())

    @property
    def costs(self) -> Sequence[float]:
        """C of each of many models, as asked for; empty of one problem."""
        return () if isinstance(self._task, Problem) else list(map(float, self._task.asked))

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        state = self._task.facts | {"newton": [part.state for part in self._passes]}
        if isinstance(self._task, Problem):
            return state | {"columns": 1}
        numbers = [of.tolist() for of in self._numbers]
        columns = [len(of) for of in numbers]
        return state | {"by_pass": numbers, "trained": numbers, "columns": columns}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        for part, own in zip(self._passes, state["newton"], strict=True):
            part.state = own

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        if isinstance(self._task, Problem):
            return self._passes[0].arrays
        return {
            f"{name}-{k}": array
            for k, part in enumerate(self._passes)
            for name, array in part.arrays.items()
        }

    @property
    def row_arrays(self) -> Mapping[str, RowArray]:
        """Nothing: of rows only alpha is known."""
        return {}

    @property
    def starts(self) -> list[Start]:
        """What a warm start is to fill."""
        return [
            Start(
                part.feasible_set,
                part.alpha.all.reshape(-1, len(part.models)),
                part.V[:, : len(part.models)],
            )
            for part in self._passes
        ]

    def restore(self, stream: Iterable[Loaded]) -> None:
        """Fetch what is kept in memory only: nothing."""

    def _each(self, work: Callable[[NewtonPass], None]) -> None:
        for future in [self._threads.submit(work, part) for part in self._passes]:
            future.result()

    def begin(self, steps: int) -> None:
        """Start a pass of so many groups, for the models that are not solved."""
        unsolved = self._unsolved()
        for part, numbers in zip(self._passes, self._numbers, strict=True):
            part.begin(np.flatnonzero(unsolved[numbers]).tolist())

    def step(
        self, group: Group, outer: int, number: int, steps: int, halt: Callable[[], bool]
    ) -> None:
        """Add what a group contributes to the pass; after the last one take its consequence."""
        self._each(lambda part: part.step(group, self._first))
        if number == steps - 1:
            self._each(lambda part: part.end(outer))

    def sample_gap(self, group: Group) -> None:
        """Sample nothing: P - D is known."""

    def estimate(self) -> Estimate:
        """Return the values of the points reached, as certified."""
        found, models = self._certificates(), self._models
        gaps = [certificate.gap for certificate in found]
        unsolved = self._unsolved()
        return Estimate(
            primal=sum(certificate.primal for certificate in found),
            dual=sum(certificate.dual for certificate in found),
            violation=float(self._violations().max()),
            n_sv=sum(model.n_sv for model in models),
            steps=0,
            gap=max(gaps),
            middle_gap=max(gaps),
            rise=math.inf,
            exact=True,
            final=not unsolved.any() and any(model.final for model in models),
            new=any(model.new for model in models),
            gaps=tuple(gaps),
        )

    def _certificates(self) -> list[Certificate]:
        return [model.certificate for model in self._models if model.certificate is not None]

    def certify(self, stream: Iterable[Loaded], enough: float | None = None) -> Certificate | float:
        """Return the certificate of the points reached; of adopted weights after a pass."""
        if self._adopted is not None:
            self._evaluate(self._adopted, stream)
            self._adopted = None
        return joined(self._certificates())

    def _evaluate(self, weights: Floats, stream: Iterable[Loaded]) -> None:
        for j, model in enumerate(self._models):
            model.trial[:], model.certificate, model.evaluates = weights[:, j], None, True
        for part in self._passes:
            part.begin(list(range(len(part.models))))
        for loaded in stream:
            group = loaded.group
            self._each(lambda part, group=group: part.step(group, self._first))  # type: ignore[misc]
        self._each(lambda part: part.end(0))

    def drop_solved(self) -> bool:
        """Say that there is nothing to drop: solved models take no part in a pass."""
        return False

    def chosen(self, certificate: Certificate) -> Floats:
        """Return the weights of the points reached, float64[n_features + 1, M]."""
        return self.current()

    def proven(self) -> list[Certificate]:
        """Return the certificate of each of many models; nothing for one problem."""
        return [] if isinstance(self._task, Problem) else self._certificates()

    def current(self) -> Floats:
        """Return the weights of the points reached, float64[n_features + 1, M]."""
        models = self._models
        if len(models) == 1:
            return models[0].w.reshape(-1, 1)
        return np.stack([model.w for model in models], axis=1)

    def adopt(self, weights: Floats) -> None:
        """Make other weights, float64[n_features + 1, M], the candidates."""
        self._adopted = weights

    def successor(self, enough_products: float) -> Solver | None:
        """Return nothing: no solver goes on where this one does not converge."""
        return None

    def discard(self) -> None:
        """Delete the scratch files."""
        self._threads.shutdown()
        for part in self._passes:
            part.alpha.discard()
        if self._before is not None:
            self._before.discard()


def tolerance_scales(task: Task, manifest: Manifest) -> Floats:
    """Return what LIBLINEAR multiplies ``-e`` by for its primal solvers, float64[M].

    That is the share of rows of the smaller class; 1 for regression.
    """
    if task.solver.regression or manifest.labels is None:
        return np.ones(1 if isinstance(task, Problem) else len(task))
    counts = dict(zip(manifest.labels, manifest.label_counts, strict=True))
    positive = [0] if isinstance(task, Problem) else task.positive.tolist()
    n = manifest.n_rows
    found = [max(min(counts[task.labels[k]], n - counts[task.labels[k]]), 1) / n for k in positive]
    return np.array(found)


def successor_of(
    before: Solver,
    task: Task,
    weights: Floats,
    alphas: Sequence[RowArray],
    proven: Sequence[Certificate | None],
    manifest: Manifest,
    options: TrainOptions,
    enough_products: float,
) -> Newton:
    """Return Newton's method from where another solver stands.

    Parameters
    ----------
    before : Solver
    task : Task
        With a smooth loss.
    weights : float64[n_features + 1, M]
        Its weights.
    alphas : sequence of RowArray
        Its alpha, as `_make` takes them.
    proven : sequence of Certificate or None
        Of each model, what it was dropped with; None where it goes on.
    enough_products : float
        As for `NewtonIterate`.
    """
    newton = _make(task, alphas, len(weights), manifest, options, enough_products, before)
    newton.start_from(weights, proven)
    return newton


def make_newton(
    manifest: Manifest,
    options: TrainOptions,
    task: Task,
    folder: Path,
    enough_products: float,
) -> Newton:
    """Return Newton's method from w = 0.

    Parameters
    ----------
    folder : Path
        Where alpha is kept.
    enough_products : float
        As for `NewtonIterate`.
    """
    if isinstance(task, Problem):
        alphas = [RowArray(folder / "alpha.work", manifest, np.float64)]
    else:
        alphas = [
            RowArray(folder / f"alpha-{k}.work", manifest, np.float64, len(some))
            for k, some in enumerate(models_by_pass(len(task)))
        ]
    return _make(task, alphas, manifest.n_features + 1, manifest, options, enough_products)


def _make(
    task: Task,
    alphas: Sequence[RowArray],
    n: int,
    manifest: Manifest,
    options: TrainOptions,
    enough_products: float,
    before: Solver | None = None,
) -> Newton:
    """Return Newton's method for n weights a model, and for the models of each pass its alpha."""
    if isinstance(task, Problem):
        one = OnePass(task, n, options, alphas[0], enough_products)
        return Newton(task, [one], [np.zeros(1, np.int64)], manifest, options, before)
    numbers = models_by_pass(len(task))
    passes = [
        ManyPass(task.some(some), n, options, alpha, enough_products)
        for some, alpha in zip(numbers, alphas, strict=True)
    ]
    return Newton(task, passes, numbers, manifest, options, before)
