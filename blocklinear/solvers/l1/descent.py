"""Descent on columns: Newton steps, and dual points from where they lead.

A Newton step minimises a quadratic model by coordinate descent, over frequent features together:
these depend on each other so much that one after the other would take hundreds of passes. Where
passes are slow even so, twice as many are solved for together, and so on: all that are in use,
where these are about as many as the support vectors, as the Hessian is nearly singular then. With
squared hinge loss an interior point method goes on once steps have taken as long as it would.

Where margins of thousands of rows are close, as of texts by unscaled counts of words, a step ends
next to where it began: its model knows only the rows with a loss there. Coordinate descent on the
primal itself sees each row's margin, and takes as long again.

The alpha of the primal violate what makes a dual point feasible by as much as the weights are off,
and to scale them down by the worst of all features costs far more of the dual value than the primal
is off. So first they are pulled to what is feasible, along the features that violate it most:
coordinate descent, again, on

    min_u  |u|_1 - v'u + 1/2 sum_i h_i (x_i'u)**2,     alpha_i - s_i h_i x_i'u

the second of which is the point. With a ridge every alpha is feasible, and what it costs falls with
the square of the violation: Newton steps go on until that is little.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual
from blocklinear.kernels import l1 as kernels
from blocklinear.kernels.losses import SQUARED_HINGE
from blocklinear.kernels.sums import dot
from blocklinear.solvers.l1.columns import PRODUCT_BYTES, TOGETHER, ColumnCache
from blocklinear.solvers.l1.interior import InteriorPoint
from blocklinear.solvers.l1.penalty import Penalty, violations
from blocklinear.solvers.l1.subspace import Subspace
from blocklinear.solvers.protocol import CutShort
from blocklinear.solvers.row_orders import permuted

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Block = tuple[Integers, Floats]
"""Features to be solved for together, and sum_i h_i x_ij x_ik of these."""
DIFFERENCE = 1e-12
"""What rounding may do to a difference of two values of P, over P."""
ROUGH = 0.5
"""A step is good enough once at most so much of the violation is left."""
_FORCING = 0.1  # no step needs less; nor does a pulled alpha
_LAST_GAIN = 0.03  # passes over the columns go on while one gains so much of what all did
_MOST_PASSES = 30
_LONGEST_PART = 1 << 22  # of a pass, in entries: up to a second
_CYCLE = 5  # passes over the features that violate most, before all are looked at
_SHARE = 0.5  # of the entries of all steps, for a dual point
_PRODUCT = 0.05  # of the time of an entry in a pass: 0.06 in a profile of imdb_uni
_ON_PRIMAL = 2  # of the time of an entry in a pass over the model
_LEAST_STEP = 1e-6  # of the line search
_FLAT = 0.9  # what may be left of the slope where a step ends that had to be shorter
_MOST_HALVINGS = 40  # of what may be the length
_STEPS_INSIDE, _MOST_INSIDE = 25, 100
"""Steps that the interior point method takes, and may take. It took 17 to 33 on eight tables of
numbers as they are, C = 0.1 to 1e4, to a gap of 1e-4; one with C = 1e4 took 71."""
_ROWS_INSIDE, _FEATURE_INSIDE = 24, 512
"""Bytes of a product of two rows, which is there three times, and of a feature: sixty numbers."""
_ENOUGH_INSIDE = 0.1  # of the gap asked for is left of these features
_SHORTER = 1e-3
"""If no part of a step lowers the primal, the next moves weights by so much of it, at most.

Rows far on the wrong side have next to no curvature (logistic): a weight that only these matter to
went 2e10 far, 60,000 blogs in 248 MB, C = 10, and took all others with it.
"""


@dataclass(frozen=True)
class Rows:
    """What a model needs of all rows of the store.

    Attributes
    ----------
    kind : int                the loss, as kernels number it
    target, cost : float64[n_rows]      t_i and C_i
    size : float64[n_rows]    |x_i|, the bias feature included
    length : int32[n_rows]    entries
    """

    kind: int
    target: Floats
    cost: Floats
    size: Floats
    length: NDArray[np.int32]

    @property
    def loss(self) -> tuple[int, Floats, Floats]:
        """What kernels need for values of the loss."""
        return self.kind, self.target, self.cost


@dataclass(frozen=True)
class Place:
    """Where descent was: weights, float64[m], decision values, float64[n_rows], and P."""

    w: Floats
    decision: Floats
    value: float


class Descent:
    """Newton steps on some columns, apart from the model until they are done.

    Parameters
    ----------
    chosen : int64[m]         features whose columns are there
    weights : float64[n_features + 1]
    decision : float64[n_rows]          w'x_i; changed
    goal : float              the gap that is asked for
    forcing : float           how much of the violation may be left by the first step
    key, orders : int         of random orders; how many were drawn before
    cut_short : callable
        Asked between parts of passes over the columns: the rest is then left out.

    Attributes
    ----------
    features : int64[m]       in the order of their columns
    w, decision : float64[m], float64[n_rows]     where it is
    orders : int              random orders drawn so far
    value : float             P there
    step : float64[n_rows]    s_i alpha_i of the primal there
    forcing : float           for the next step
    work : int                entries processed in descent
    spent : int               these, and products of features solved for together in their time
    shortened : bool          whether the last Newton step was not taken whole
    """

    def __init__(
        self,
        rows: Rows,
        columns: ColumnCache,
        chosen: Integers,
        weights: Floats,
        decision: Floats,
        penalty: Penalty,
        goal: float,
        forcing: float,
        key: int,
        orders: int,
        cut_short: CutShort,
    ) -> None:
        self._rows, self._goal, self._cut_short, self._columns = rows, goal, cut_short, columns
        self._cost_asked = rows.cost
        self._key, self.orders = key, orders
        self._chosen = np.sort(columns.slots[chosen]).astype(np.int64)
        self._lengths = columns.entries(self._chosen)
        self.features = columns.features[self._chosen].astype(np.int64)
        self.w, self.decision, self.forcing = weights[self.features], decision, forcing
        self._penalty, self._ridge = penalty.of_features(self.features, len(weights) - 1)
        self._elsewhere = max(penalty.of(weights) - self._cost(self.w), 0.0)
        n = len(decision)
        self.step, self._state = np.empty(n), np.zeros((n, 2))
        self._v, self._h = np.empty(len(self.w)), np.empty(len(self.w))
        self.work = self.spent = 0
        self.shortened = False
        self._inside: tuple[Floats, Floats] | None = None
        self._together, self._products = np.zeros(0, np.int64), np.zeros((0, 0))
        self.value = self._value(0.0, self.w)
        self._expand()

    def _size(self, w: Floats) -> float:
        return float(dot(self._penalty, np.abs(w)))

    def _cost(self, w: Floats) -> float:
        return self._size(w) + 0.5 * float(dot(self._ridge * w, w))

    def _value(self, length: float, w: Floats) -> float:
        """Return P, moved by `length` times what has moved."""
        loss = kernels.total_loss(*self._rows.loss, self.decision, length, self._state)
        return float(loss) + self._elsewhere + self._cost(w)

    def _expand(self) -> None:
        """Expand the primal where it is: alpha, curvature, derivatives."""
        kernels.expand(*self._rows.loss, self.decision, self.step, self._state)
        self._columns.derivatives(self._chosen, self.step, self._state, self._v, self._h)
        self._v -= self._ridge * self.w
        self._h += self._ridge
        self._subspace = Subspace(len(self.decision), self._penalty, self._ridge)
        self._damped = False  # whether `_h` is more than the curvatures, to keep steps short

    def mistaken(self, step: Floats, pull: Floats) -> float:
        """Return by how much columns are wrong about v of a dual point, over its largest part.

        Parameters
        ----------
        step : float64[n_rows]    s_i alpha_i
        pull : float64[n_features + 1]      v, of rows
        """
        v = self._pull_of(step)
        wrong = float(np.abs(v - pull[self.features]).max(initial=0.0))
        return wrong / max(float(np.abs(pull).max()), 1.0)

    @property
    def place(self) -> Place:
        """Where it is; float64[m] of weights and float64[n_rows] of decision values are copied."""
        return Place(self.w.copy(), self.decision.copy(), self.value)

    def go_to(self, place: Place) -> None:
        """Go back to where it was, at the same cost."""
        self.w[:], self.decision[:], self.value = place.w, place.decision, place.value
        self._expand()

    def take_cost(self, share: float) -> None:
        """Go on with so much of the C of each row."""
        self._rows = replace(self._rows, cost=share * self._cost_asked)
        self._expand()
        self.value = self._value(0.0, self.w)

    def newton_step(self) -> float:
        """Minimise the quadratic model, and go as far along as the primal falls enough.

        How well it is minimised follows from how well the last one predicted the violation
        (Eisenstat and Walker, "Choosing the forcing terms in an inexact Newton method", SIAM
        Journal on Scientific Computing 1996, Eq. 2.1). Return by how much the primal fell.
        """
        wrong = self._wrong()
        enough, before = self.forcing * wrong, math.inf
        gain, promised, longest, left = self._step(enough)
        while gain == 0.0 and promised > DIFFERENCE * self.value and longest <= 0.5 * before:
            if self._cut_short():
                break
            before = longest  # the model means nothing so far away
            self._expand()
            each = violations(self.w, self._v, self._penalty)
            np.maximum(self._h, each / (_SHORTER * longest), out=self._h)
            self._damped = True
            gain, promised, longest, left = self._step(enough)
        self._expand()
        off = abs(self._wrong() - left) / wrong if wrong > 0.0 else 1.0
        self.forcing = min(max(off, _FORCING), ROUGH)
        return gain

    def _step(self, enough: float) -> tuple[float, float, float, float]:
        """Take one step.

        Return by how much the primal fell; by how much a whole step would lower it at the slope at
        its beginning; the largest change of a weight in it; and the violation left in the model.
        """
        d, left = self._model_step(enough)
        self.shortened = True
        slope = -float(dot(self._v, d)) + self._size(self.w + d) - self._size(self.w)
        length, gain = 1.0, 0.0
        while length >= _LEAST_STEP:
            w = self.w + length * d
            value = self._value(length, w)
            if value <= self.value + kernels.SUFFICIENT * length * slope:
                self.shortened = length < 1.0
                if self.shortened:
                    length, w, value = self._longer(d, slope, length, w, value)
                gain = self.value - value
                self.w, self.value = w, value
                self.decision += length * self._state[:, kernels.MOVED]
                break
            length /= 2.0
        return gain, -slope, float(np.abs(d).max(initial=0.0)), left

    def _longer(
        self, d: Floats, slope: float, length: float, w: Floats, value: float
    ) -> tuple[float, Floats, float]:
        """Return a length that leaves little of the slope, with the weights and P there.

        Twice the `length` is too long. To stop at it would be to stop before the margin of a row
        that is close, behind which P rises steeply; and so would all steps from there on, as no
        quadratic model has that row.
        """
        low, high, at_low = length, 2.0 * length, self._slope_at(length, w, d)
        for _ in range(_MOST_HALVINGS):
            if at_low >= _FLAT * slope:
                break
            middle = 0.5 * (low + high)
            further = self.w + middle * d
            reached, at_middle = self._value(middle, further), self._slope_at(middle, further, d)
            if at_middle <= 0.0 or reached <= value:
                low, at_low, w, value = middle, at_middle, further, reached
            else:
                high = middle
        return low, w, value

    def _slope_at(self, length: float, w: Floats, d: Floats) -> float:
        """Return the slope of P along a step, at so much of it, where weights are `w`."""
        of_loss = kernels.slope_of_loss(*self._rows.loss, self.decision, length, self._state)
        signed = np.where(w == 0.0, np.abs(d), np.sign(w) * d)
        return float(of_loss) + float(dot(self._penalty, signed)) + float(dot(self._ridge * w, d))

    def descend_on_primal(self) -> float:
        """Pass over the features that matter, P itself falling by each; return by how much it did.

        That goes on until it has taken as long as all before, or lowers P no more.
        """
        first, end, gain = self.value, 2 * self.spent, math.inf
        while gain > DIFFERENCE * first and self.spent < end and not self._cut_short():
            before, d = self.value, np.zeros(len(self.w))
            self._state[:, kernels.MOVED] = 0.0
            features = np.flatnonzero(self._matters)
            for _ in range(_CYCLE):
                self._pass_on_primal(self._order(features), d)
            self.w += d
            self.decision += self._state[:, kernels.MOVED]
            self.value = self._value(0.0, self.w)
            self._expand()
            gain = before - self.value
        return first - self.value

    def _pass_on_primal(self, order: Integers, d: Floats) -> None:
        for part in self._parts(order):
            if self._cut_short():
                break
            kernels.descend_on_primal(
                self._rows.loss, self.decision, self._columns.arrays, self._chosen, part,
                self._penalty, self._ridge, self.w, d, self._state,
            )  # fmt: skip
            entries = _ON_PRIMAL * self._entries(part)
            self.work, self.spent = self.work + entries, self.spent + entries

    @property
    def _matters(self) -> NDArray[np.bool_]:
        """Which features are in use, or might be."""
        return np.asarray((self.w != 0.0) | (np.abs(self._v) >= self._penalty))

    def _order(self, features: Integers) -> Integers:
        """Return features in a random order."""
        self.orders += 1
        return features[permuted(len(features), self._key, self.orders - 1)]

    @property
    def work_inside(self) -> float:
        """The entries that `go_inside` takes as long as, about; infinite where it cannot be used.

        Each step makes the products of all columns, or of all rows, and divides these twice.
        """
        m, most = len(self._chosen), self._columns.together
        n_bytes = _ROWS_INSIDE * len(self.decision) ** 2 + _FEATURE_INSIDE * m
        few = m <= most or (self._fewer_rows and n_bytes <= PRODUCT_BYTES * most**2)
        holds = few and m > 0 and bool(self._columns.holds(self._chosen).all())
        if self._rows.kind != SQUARED_HINGE or not holds:
            return math.inf
        m = len(self.decision) if self._fewer_rows else m
        return _STEPS_INSIDE * _PRODUCT * m * float(self._lengths.sum() + m * m)

    @property
    def _fewer_rows(self) -> bool:
        """Whether rows are few, and fewer than features."""
        return len(self.decision) < min(len(self._chosen), self._columns.together + 1)

    def go_inside(self) -> None:
        """Go to the optimum by the interior point method, until the gap is what is asked for.

        The best dual point on the way is kept for `pulled`.
        """
        rows, best, most = self._rows, self.place, -math.inf
        alpha = float(np.abs(self.step).sum()) / (self.top * np.count_nonzero(rows.cost))
        products = self._products_of_rows if self._fewer_rows else self._products_of
        inside = InteriorPoint(
            rows.target, rows.cost, self._penalty, self._ridge, alpha or 1.0,
            self._decision_of, self._pull_of, products, self._fewer_rows,
        )  # fmt: skip
        for _ in range(_MOST_INSIDE):
            if self._cut_short() or not inside.go_on():
                break
            w, step = inside.sparse, inside.step
            self.decision[:] = self._decision_of(w)
            value = self._value(0.0, w)
            if value < best.value:
                best = Place(w, self.decision.copy(), value)
            v = self._pull_of(step)
            proven = self._proven(step, v)
            if proven > most:
                most, self._inside = proven, (step, v)
            if best.value - most <= max(_ENOUGH_INSIDE * self._goal, DIFFERENCE) * best.value:
                break
        self.go_to(best)

    @property
    def solved(self) -> bool:
        """Whether a dual point from inside proves the gap that is asked for, of these features."""
        if self._inside is None:
            return False
        return self.value - self._proven(*self._inside) <= self._goal * self.value

    def _decision_of(self, w: Floats) -> Floats:
        """Return w'x_i; what has moved is lost."""
        self._state[:, kernels.MOVED] = 0.0
        kernels.add_columns(self._columns.arrays, self._chosen, w, self._state)
        return self._state[:, kernels.MOVED].copy()

    def _pull_of(self, step: Floats) -> Floats:
        """Return what a step pulls at the weights."""
        v = np.empty(len(self.w))
        self._columns.derivatives(self._chosen, step, self._state, v, np.empty(len(v)))
        self.work += int(self._lengths.sum())
        return v

    def _products_of(self, h: Floats) -> Floats:
        """Return sum_i h_i x_ij x_ik; curvatures are lost."""
        self._state[:, kernels.CURVED] = h
        return self._columns.gram(self._chosen, self._state, np.zeros((0, 0)))

    def _products_of_rows(self, scale: Floats) -> Floats:
        n = len(self.decision)
        products = np.empty((n, n))
        kernels.gram_of_rows(self._columns.arrays, self._chosen, scale, products)
        return products

    def _proven(self, step: Floats, v: Floats) -> float:
        """Return D of a dual point made feasible, less what free weights cost it."""
        free = self._penalty == 0.0
        lost = float(np.sum(np.abs(self.w * v)[free]))
        if not self._ridge.any():
            return self._dual(step, self._top(v)) - lost
        wrong = np.maximum(np.abs(v) - self._penalty, 0.0)[~free]
        return self._dual(step, 1.0) - lost - 0.5 * float(np.sum(wrong**2 / self._ridge[~free]))

    @property
    def lost(self) -> float:
        """What the violations of these features cost of P - D at most; 0 without a ridge."""
        wrong = violations(self.w, self._v, self._penalty)[self._ridge > 0.0]
        return 0.5 * float(np.sum(wrong**2 / self._ridge[self._ridge > 0.0]))

    @property
    def pull(self) -> Floats:
        """v_j of alpha of the primal, float64[m]."""
        return self._v + self._ridge * self.w

    @property
    def top(self) -> float:
        """The largest |v_j| over p_j, at least 1."""
        penalised = self._penalty > 0.0
        pulls = np.abs(self._v[penalised]) / self._penalty[penalised]
        return float(pulls.max(initial=1.0))

    def _wrong(self) -> float:
        """Return the largest violation of optimality."""
        return float(violations(self.w, self._v, self._penalty).max(initial=0.0))

    def _model_step(self, enough: float) -> tuple[Floats, float]:
        """Minimise the quadratic model until no violation of its optimality is above `enough`.

        Or until a pass gains little, compared with all. Damped steps solve for no features
        together, as their products are not damped. Return the step and the largest violation.
        """
        matter = self._matters
        self._together, self._products = self._together[:0], self._products[:0, :0]
        left = math.inf
        others, block = self._divided(matter)
        d, fallen, before = np.zeros(len(self.w)), 0.0, self.work
        for _ in range(_MOST_PASSES):
            fell, worst = self._descend(self._order(others), block, self.w, d)
            fallen += fell
            if worst <= enough or fell <= _LAST_GAIN * fallen or self._cut_short():
                break
            if worst > 0.5 * left and not self._damped:
                self._join_frequent(matter, self.work - before)
                others, block = self._divided(matter)
            left = worst
        return d, worst

    def _join_frequent(self, matter: NDArray[np.bool_], spent: int) -> None:
        """Solve for the most frequent of some features together: they depend on each other most.

        The first ones at once; twice as many as before, whose products are kept, once the passes of
        this step, which have processed so many entries, have taken as long as their products will.
        """
        size = min(2 * len(self._together), self._columns.together) or TOGETHER
        features = np.flatnonzero(matter)
        together = features[np.argsort(-self._lengths[features], kind="stable")[:size]]
        together = together[self._columns.holds(self._chosen[together])]
        new = np.arange(len(self._together), len(together))
        pays = _PRODUCT * len(together) * self._entries(together) <= spent
        if not len(new) or (len(self._together) and not pays):
            return
        self._together = together
        self._products = self._columns.gram(self._chosen[together], self._state, self._products)
        self._products[new, new] += self._ridge[together[new]]

    def _divided(self, matter: NDArray[np.bool_]) -> tuple[Integers, Block]:
        """Divide features into others and those to be solved for together, with their products."""
        among = np.flatnonzero(matter[self._together])
        products = np.ascontiguousarray(self._products[among][:, among])
        others = matter.copy()
        others[self._together] = False
        return np.flatnonzero(others), (self._together[among], products)

    def _descend(self, order: Integers, block: Block, w: Floats, d: Floats) -> tuple[float, float]:
        """Go on along the last changes, and pass over some features, those of a block together.

        Damped steps do not go on along the last changes. Return by how much the model has fallen,
        and the largest violation met.
        """
        columns, state = (self._columns.arrays, self._chosen), self._state
        penalty = self._penalty, self._ridge
        entries = self._entries(order) + self._entries(block[0])
        self.work += entries
        fallen = 0.0 if self._damped else self._subspace.go_on(w, d, self._v, state)
        violation = 0.0
        for part in self._parts(order):
            fell, worst = kernels.descend(*columns, part, *penalty, self._v, self._h, w, d, state)
            fallen, violation = fallen + fell, max(violation, worst)
            if self._cut_short():
                break
        fell, worst, n_products = kernels.descend_together(
            *columns, *block, *penalty, self._v, w, d, state
        )
        self.spent += entries + int(_PRODUCT * n_products)
        return fallen + fell, max(violation, worst)

    def _parts(self, order: Integers) -> Iterator[Integers]:
        """Yield an order of features in parts that memory holds, and that are soon passed over."""
        for part in self._columns.parts(self._chosen, order):
            yield from np.array_split(part, max(self._entries(part) // _LONGEST_PART, 1))

    def _entries(self, features: Integers) -> int:
        return int(self._lengths[features].sum())

    def pulled(self, most: int) -> Floats:
        """Return the best dual point found near that of the primal, s_i alpha_i; float64[n_rows].

        With a ridge that is the primal's own, or one from inside. Cycles end once the gap of these
        features is what is asked for; or once the gap of the point before it is scaled, which
        cycles raise as they lower what scaling costs, is more than that; or once they have
        processed half as many entries as all steps of the run, `most`. Nothing can follow but to
        take over the weights.
        """
        rows, best, enough = self._rows, self.step, self._goal * self.value
        if self._inside is not None and self._proven(*self._inside) > self._proven(best, self.pull):
            best = self._inside[0]
        if self._ridge.any() or self.solved:
            return best
        u, base, moved = np.zeros(len(self.w)), self.step.copy(), self.step.copy()
        v, nothing = self._v.copy(), np.zeros(len(u))
        before = self.work
        top = self._top(v)
        least = self.value - self._dual(moved, top)
        if best is not self.step and self._inside is not None:
            least = self.value - self._proven(*self._inside)
        while least > enough and self.work - before <= _SHARE * most and not self._cut_short():
            small = _FORCING * (top - 1.0)
            some = (np.abs(v) > (1.0 + small) * self._penalty) | (u != 0.0)
            if self.value - self._dual(moved, 1.0) >= enough or not some.any():
                break
            if not len(self._together):
                self._join_frequent(self._matters, 0)
            others, block = self._divided(some)
            for _ in range(_CYCLE):
                _, worst = self._descend(others, block, nothing, u)
                if worst <= small or self._cut_short():
                    break
            if kernels.move_alpha(*rows.loss, base, self._state, moved):
                self._v = self._pull_of(base)
            v = self._pull_of(moved)
            top = self._top(v)
            left = self.value - self._dual(moved, top)
            if left < least:
                best, least = moved.copy(), left
        return best

    def _top(self, v: Floats) -> float:
        return max(float((np.abs(v) * (self._penalty > 0.0)).max(initial=0.0)), 1.0)

    def _dual(self, step: Floats, top: float) -> float:
        (kind, target, cost), terms = self._rows.loss, np.zeros(dual.N_TERMS)
        alpha = target * step
        alpha *= 1.0 / top
        dual.add_dual_terms((target, cost), (kind, 0.0), alpha, terms)
        return float(terms[dual.DUAL])
