"""What models on their way by Newton's method share in a pass over rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import primal as kernels
from blocklinear.kernels.losses import N_REACHES, N_SUMS
from blocklinear.objectives.certificate import aligned_zeros
from blocklinear.objectives.models import Models
from blocklinear.options import TrainOptions
from blocklinear.solvers.newton.iterate import NewtonIterate, PassSums
from blocklinear.solvers.newton.proximal import ProximalIterate
from blocklinear.solvers.sharing import padded
from blocklinear.store.groups import Group
from blocklinear.store.row_arrays import RowArray

Floats = NDArray[np.float64]
_NONE = np.zeros((0, 0))


@dataclass(frozen=True)
class Points:
    """What a pass works on, for each model that takes part; `V` has a column for each.

    The models have these numbers among those that share passes.
    """

    models: list[int]
    V: Floats  # float64[n, P]: points to be evaluated, or vectors to be multiplied
    norms: Floats  # float64[width]: of the columns, or more
    evaluates: NDArray[np.bool_]  # bool[width]
    recenters: NDArray[np.bool_]  # bool[width]: see `NewtonIterate`, like widths
    widths: Floats  # float64[width]
    direct: bool  # whether Hessians are to be added up

    @property
    def evaluated(self) -> NDArray[np.int64]:
        """The models that evaluate a point."""
        return np.array(self.models, np.int64)[self.evaluates]


@dataclass(frozen=True)
class RowSums:
    """What rows contribute to a pass, as `kernels.primal` says; a column or line for each model."""

    out: Floats  # float64[n, P]
    diagonal: Floats  # float64[n, P]
    hessians: Floats  # float64[width or 0, n, n]
    sums: Floats  # float64[width, N_SUMS]
    reach: Floats  # float64[width, N_REACHES]
    values: Floats  # float64[width, N_VALUES]

    @classmethod
    def zeros(cls, n: int, width: int, hessians: bool) -> "RowSums":
        """Return those of no rows."""
        out, diagonal = (aligned_zeros(n, padded(width)) for _ in range(2))
        size = (width, n, n) if hessians else (0, 0, 0)
        others = (np.zeros((width, k)) for k in (N_SUMS, N_REACHES, kernels.N_VALUES))
        return cls(out, diagonal, np.zeros(size), *others)

    def clear(self) -> None:
        """Make them those of no rows."""
        for array in vars(self).values():
            array[:] = 0.0

    def plus(self, other: "RowSums") -> "RowSums":
        """Return those of both rows."""
        return RowSums(**{name: of + getattr(other, name) for name, of in vars(self).items()})


class RowPass:
    """Rows in the passes of models that share them: their alpha, and what they contribute.

    Attributes
    ----------
    alpha : RowArray          float64, a column for each model
    center : RowArray or None what alpha may move from, see `kernels.primal`; None if the loss is
                              smooth
    found : RowSums           of the models that take part
    n_rows : int              seen in the pass under way
    """

    def __init__(self, task: Models, bias: float, alpha: RowArray, n: int) -> None:
        self._task, self._bias, self.alpha, self._n = task, bias, alpha, n
        self.center = None if task.solver.smooth else alpha.another("center")
        self.make_room(len(task), False)

    def make_room(self, width: int, hessians: bool) -> None:
        """Allocate what a pass of so many models needs."""
        self.found, self.n_rows = RowSums.zeros(self._n, width, hessians), 0

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        return {"rows": self.n_rows, "hessians": len(self.found.hessians)}

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        found, center = self.found, self.center
        arrays: dict[str, NDArray[Any]] = {
            "alpha": self.alpha.all, "out": found.out, "diagonals": found.diagonal,
            "sums": found.sums, "reach": found.reach,
        }  # fmt: skip
        if center is not None:
            arrays |= {"center": center.all, "values": found.values}
        return arrays | ({"hessians": found.hessians} if len(found.hessians) else {})

    def begin(self, points: Points) -> None:
        """Start a pass."""
        width, has_hessians = len(points.models), len(self.found.hessians) > 0
        if width != len(self.found.sums) or (points.direct and not has_hessians):
            self.make_room(width, points.direct)
        self.found.clear()
        self.n_rows = 0

    def step(self, group: Group, points: Points) -> None:
        """Add what a group contributes to the pass."""
        if not points.models:
            return
        mine = self.alpha.read_columns(group.blocks, points.models)
        center = _NONE
        if self.center is not None:
            center = self.center.read_columns(group.blocks, points.models)
            if points.recenters.any():
                center[:, points.recenters] = mine[:, points.recenters]
                self.center.write_columns(group.blocks, points.models, center)
        self._pass_over(group, points, center, mine)
        if points.evaluates.any():
            self.alpha.write_columns(group.blocks, points.models, mine)
        self.n_rows += group.n_rows

    def _pass_over(self, group: Group, points: Points, center: Floats, alpha: Floats) -> None:
        """Add what rows contribute for the models that take part; write or read their alpha."""
        task, rows, found = self._task, group.rows, self.found
        if not task.alone:
            models = task.some(np.array(points.models))
            kernels.newton_many(
                rows.arrays, models.data(rows), models.arguments, self._bias, points.evaluates,
                points.V, points.norms, center, points.widths, alpha, found.out, found.diagonal,
                found.hessians, found.sums, found.reach, found.values,
            )  # fmt: skip
            return
        kernels.newton_rows(
            rows.arrays, task.of_model(0, rows), task.loss, self._bias,
            bool(points.evaluates[0]), points.V.reshape(-1), float(points.norms[0]),
            center.reshape(-1), float(points.widths[0]), alpha.reshape(-1), found.out.reshape(-1),
            found.diagonal.reshape(-1), found.hessians[0] if len(found.hessians) else _NONE,
            found.sums[0], found.reach[0], found.values[0],
        )  # fmt: skip

    def discard(self) -> None:
        """Delete the scratch files."""
        self.alpha.discard()
        if self.center is not None:
            self.center.discard()


class NewtonPass:
    """Models that share each pass over rows; of `n` weights, with the bias's.

    Attributes
    ----------
    models : list of NewtonIterate
    V : float64[n, P]         what a pass works on, a column for each model that takes part
    """

    _points: Points | None

    def __init__(self, task: Models, n: int, options: TrainOptions, enough_products: float) -> None:
        kind = NewtonIterate if task.solver.smooth else ProximalIterate
        self._vectors = {name: np.zeros((len(task), n)) for name in kind.vectors}
        self.models = [
            kind({name: rows[k] for name, rows in self._vectors.items()}, options, enough_products)
            for k in range(len(task))
        ]
        self._n, self._begun = n, False
        self._take_part(list(range(len(task))))

    def _take_part(self, active: list[int]) -> None:
        self._active, self._points = active, None
        self.V = aligned_zeros(self._n, padded(len(active)))

    @property
    def taking_part(self) -> list[NewtonIterate]:
        """The models that take part in the pass, in the order of their columns."""
        return [self.models[k] for k in self._active]

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        return {"active": self._active, "models": [model.state for model in self.models]}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        if state["active"] != sorted(set(state["active"]) & set(range(len(self.models)))):
            raise ValueError("the models of the state are not those of the run")
        for model, own in zip(self.models, state["models"], strict=True):
            model.state = own
        self._begun = True
        self._take_part(list(state["active"]))

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return self._vectors

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
            self._take_part(active)
        self._points = self._gathered()

    @property
    def points(self) -> Points:
        """What the pass under way works on."""
        if self._points is None:  # it goes on after a resume
            self._points = self._gathered()
        return self._points

    def _gathered(self) -> Points:
        models = self.taking_part
        for column, model in enumerate(models):
            self.V[:, column] = model.point
        return Points(
            self._active, self.V, np.array([model.magnitude for model in models]),
            np.array([model.evaluates for model in models], np.bool_),
            np.array([model.recenters for model in models], np.bool_),
            np.array([model.width for model in models]),
            any(model.evaluates and model.direct for model in models),
        )  # fmt: skip

    def end(self, found: RowSums, n_rows: int, passes: int) -> None:
        """Let each model that takes part draw its consequence from what so many rows contribute."""
        with np.errstate(all="ignore"):  # what overflows is noticed in certificates
            for column, model in enumerate(self.taking_part):
                of = np.ascontiguousarray(found.out[:, column])
                if not model.evaluates:
                    model.multiplied(of, passes)
                    continue
                whole = len(found.hessians) > 0 and model.direct
                model.evaluated(
                    PassSums(
                        of, found.diagonal[:, column], found.hessians[column] if whole else _NONE,
                        found.sums[column], found.reach[column], found.values[column], n_rows,
                    )
                )  # fmt: skip
        for k, model in enumerate(self.models):
            if k not in self._active:
                model.new = False
