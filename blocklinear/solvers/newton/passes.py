"""What models on their way by Newton's method share in a pass over rows."""

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
from blocklinear.store.groups import Group, RowView
from blocklinear.store.row_arrays import RowArray

Floats = NDArray[np.float64]
_NONE = np.zeros((0, 0))


class NewtonPass:
    """Models that share each pass over rows, a column for each; of `n` weights, with the bias's.

    Attributes
    ----------
    alpha : RowArray          float64, a column for each model
    center : RowArray or None what alpha may move from, see `kernels.primal`; None if the loss is
                              smooth
    models : list of NewtonIterate
    V : float64[n, P]         what a pass works on, a column for each model that takes part
    """

    def __init__(
        self, task: Models, n: int, options: TrainOptions, alpha: RowArray, enough_products: float
    ) -> None:
        self.task, self.bias, self.alpha = task, max(options.bias, 0.0), alpha
        smooth, width = task.solver.smooth, len(task)
        kind = NewtonIterate if smooth else ProximalIterate
        self.center = None if smooth else alpha.another("center")
        self._vectors = {name: np.zeros((width, n)) for name in kind.vectors}
        self.models = [
            kind({name: rows[k] for name, rows in self._vectors.items()}, options, enough_products)
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
        self._values = np.zeros((width, kernels.N_VALUES))
        self._hessians = np.zeros((0, 0, 0))

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
        if state["active"] != sorted(set(state["active"]) & set(range(len(self.models)))):
            raise ValueError("the models of the state are not those of the run")
        for model, own in zip(self.models, state["models"], strict=True):
            model.state = own
        self._begun = True
        self._active, self._n_rows = list(state["active"]), state["rows"]
        self._make_room()
        if state["hessians"]:
            self._hessians = self._new_hessians()

    def _new_hessians(self) -> Floats:
        return np.zeros((len(self._active), len(self.V), len(self.V)))

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        arrays: dict[str, NDArray[Any]] = {
            "alpha": self.alpha.all, "out": self._out, "diagonals": self._diagonal,
            "sums": self._sums, "reach": self._reach,
        }  # fmt: skip
        if self.center is not None:
            arrays |= {"center": self.center.all, "values": self._values}
        if len(self._hessians):
            arrays["hessians"] = self._hessians
        return arrays | self._vectors

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
        self._values[:] = 0.0
        self._n_rows = 0
        wanted = any(model.evaluates and model.direct for model in self.taking_part)
        if wanted and not len(self._hessians):
            self._hessians = self._new_hessians()
        self._hessians[:] = 0.0
        self._prepare()

    def _prepare(self) -> None:
        for column, model in enumerate(self.taking_part):
            self.V[:, column] = model.point
        self._norms = np.array([model.magnitude for model in self.taking_part])
        self._evaluates = np.array([model.evaluates for model in self.taking_part], np.bool_)
        self._recenters = np.array([model.recenters for model in self.taking_part], np.bool_)
        self._widths = np.array([model.width for model in self.taking_part])
        self._prepared = True

    def step(self, group: Group) -> None:
        """Add what a group contributes to the pass."""
        if not self._active:
            return
        if not self._prepared:  # after a resume
            self._prepare()
        mine = self.alpha.read_columns(group.blocks, self._active)
        center = _NONE
        if self.center is not None:
            center = self.center.read_columns(group.blocks, self._active)
            if self._recenters.any():
                center[:, self._recenters] = mine[:, self._recenters]
                self.center.write_columns(group.blocks, self._active, center)
        self._pass_over(group.rows, center, mine)
        if self._evaluates.any():
            self.alpha.write_columns(group.blocks, self._active, mine)
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
                    PassSums(
                        of, self._diagonal[:, column], self._hessians[column] if whole else _NONE,
                        self._sums[column], self._reach[column], self._values[column],
                        self._n_rows,
                    )
                )  # fmt: skip
        for k, model in enumerate(self.models):
            if k not in self._active:
                model.new = False

    def discard(self) -> None:
        """Delete the scratch files."""
        self.alpha.discard()
        if self.center is not None:
            self.center.discard()

    def _pass_over(self, rows: RowView, center: Floats, alpha: Floats) -> None:
        """Add what rows contribute for the models that take part; write or read their alpha."""
        task = self.task
        if not task.alone:
            models = task.some(np.array(self._active))
            kernels.newton_many(
                rows.arrays, models.data(rows), models.arguments, self.bias, self._evaluates,
                self.V, self._norms, center, self._widths, alpha, self._out, self._diagonal,
                self._hessians, self._sums, self._reach, self._values,
            )  # fmt: skip
            return
        kernels.newton_rows(
            rows.arrays, task.of_model(0, rows), task.loss, self.bias,
            bool(self._evaluates[0]), self.V.reshape(-1), float(self._norms[0]), center.reshape(-1),
            float(self._widths[0]), alpha.reshape(-1), self._out.reshape(-1),
            self._diagonal.reshape(-1), self._hessians[0] if len(self._hessians) else _NONE,
            self._sums[0], self._reach[0], self._values[0],
        )  # fmt: skip
