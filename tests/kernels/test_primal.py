"""Value, gradient and Hessian of the primal, against dense formulas."""

import numpy as np
import pytest
import reference
from kernel_rows import kernel_rows
from scipy.special import expit

from blocklinear.kernels import primal
from blocklinear.kernels.losses import N_REACHES, N_SUMS
from blocklinear.kernels.primal import COSTS, MOVED, N_VALUES, TARGETS, VALUE
from blocklinear.solvers.newton.iterate import curvature_along

BIAS = 0.7
SMOOTH = (reference.SQUARED_HINGE, reference.LOGISTIC, reference.L2_SVR)
PROXIMAL = (reference.HINGE, reference.L1_SVR)
KINDS = SMOOTH + PROXIMAL
WIDTH = 0.4
EPSILON = 0.3


class Rows:
    """Rows of any loss with a center of alpha, sparse as the kernels take them, and dense."""

    def __init__(self, kind, seed):
        rng = np.random.default_rng(seed)
        full = rng.normal(size=(30, 8)) * (rng.random((30, 8)) < 0.4)
        full[3] = 0  # a row without entries
        self.kind, self.X = kind, np.hstack([full, np.full((30, 1), BIAS)])
        classes = np.where(rng.random(30) < 0.5, 1.0, -1.0)
        self.target = rng.normal(size=30) if kind >= reference.L1_SVR else classes
        self.cost = np.where(rng.random(30) < 0.8, rng.uniform(0.1, 3.0, 30), 0.0)
        self.cut, self.w = kernel_rows(full), rng.normal(size=9)
        low = -1.0 if kind == reference.L1_SVR else 0.0
        self.center, self.width = rng.uniform(low, 1.0, 30) * self.cost, WIDTH

    @property
    def f(self):
        return self.X @ self.w

    def alpha(self):
        if self.kind == reference.LOGISTIC:
            return self.cost * expit(-self.target * self.f)
        if self.kind == reference.SQUARED_HINGE:
            return 2 * self.cost * np.maximum(0, 1 - self.target * self.f)
        if self.kind in PROXIMAL:
            return self.proximal_alpha()
        r = self.f - self.target
        return -2 * self.cost * np.sign(r) * np.maximum(0, abs(r) - EPSILON)

    def proximal_alpha(self):
        """Where g_i(alpha) - s_i alpha f_i - width / (2 C_i) (alpha - center_i)**2 is largest."""
        sigma = self.cost / self.width
        if self.kind == reference.HINGE:
            return np.clip(self.center + sigma * (1 - self.target * self.f), 0, self.cost)
        a = self.center + sigma * (self.target - self.f)
        soft = np.sign(a) * np.maximum(np.abs(a) - sigma * EPSILON, 0)
        return np.clip(soft, -self.cost, self.cost)

    def value(self, w):
        """The primal made smooth around the center."""
        before, self.w = self.w, w
        a, s = self.alpha(), reference.signs(self.target, self.kind)
        g = a if self.kind == reference.HINGE else self.target * a - EPSILON * np.abs(a)
        C = np.where(self.cost > 0, self.cost, 1.0)
        moved = self.width / (2 * C) * (a - self.center) ** 2
        total = 0.5 * w @ w + (g - s * a * self.f - moved).sum()
        self.w = before
        return total

    def curvature(self):
        if self.kind in PROXIMAL:
            a = self.alpha()
            return np.where((a != 0) & (np.abs(a) < self.cost), self.cost / self.width, 0.0)
        if self.kind == reference.LOGISTIC:
            return self.cost * expit(self.f) * expit(-self.f)
        return 2 * self.cost * (self.alpha() != 0)

    def gradient(self, whole=True):
        """Call the kernel; return all that it writes."""
        n = len(self.w)
        found = {
            "alpha": np.full(30, 9.0), "pull": np.zeros(n), "diagonal": np.zeros(n),
            "hessian": np.zeros((n, n) if whole else (0, 0)), "sums": np.zeros(N_SUMS),
            "reach": np.zeros(N_REACHES), "values": np.zeros(N_VALUES),
        }  # fmt: skip
        self.call(True, self.w, *found.values())
        return found

    def call(self, evaluates, v, *of):
        """Call the kernel for a point, or for a vector."""
        primal.newton_rows(
            self.cut, (self.target, self.cost), (self.kind, EPSILON), BIAS, evaluates, v,
            np.linalg.norm(v), self.center, self.width, *of,
        )  # fmt: skip

    def product(self, alpha, v):
        """Return (Hessian - I) v of the kernel, which writes nothing else."""
        others = [alpha.copy(), *map(np.zeros, (len(v), (0, 0), N_SUMS, N_REACHES, N_VALUES))]
        product = np.zeros(len(v))
        self.call(False, v, others[0], product, *others[1:])
        assert others[0].tobytes() == alpha.tobytes()
        assert not any(of.any() for of in others[1:])
        return product


@pytest.fixture(params=KINDS)
def rows(request):
    return Rows(request.param, 7)


def test_a_point(rows):
    found, s = rows.gradient(), reference.signs(rows.target, rows.kind)
    np.testing.assert_allclose(found["alpha"], rows.alpha(), rtol=1e-12)
    np.testing.assert_allclose(found["pull"], rows.X.T @ (s * rows.alpha()), rtol=1e-10)
    h = rows.curvature()
    np.testing.assert_allclose(found["diagonal"], h @ rows.X**2, rtol=1e-10)
    lower = np.tril(rows.X.T @ (h[:, None] * rows.X))
    np.testing.assert_allclose(found["hessian"], lower, rtol=1e-10, atol=1e-12)
    loss, lost, _, _ = found["sums"]
    total = reference.total_loss(rows.X, rows.target, rows.cost, rows.w, rows.kind, EPSILON)
    assert loss + lost == pytest.approx(total, rel=1e-13)
    sizes = np.linalg.norm(rows.X, axis=1)
    signed = s * rows.alpha()
    expected = [
        abs(signed) @ sizes, np.count_nonzero(signed), np.maximum(signed, 0).sum(),
        np.maximum(-signed, 0).sum(),
    ]  # fmt: skip
    np.testing.assert_allclose(found["reach"], expected, rtol=1e-12)


@pytest.mark.parametrize("kind", SMOOTH)
def test_alpha_of_a_smooth_loss_are_the_best_for_a_point(kind):
    """No row adds to the gap but by rounding, or by its square."""
    rows = Rows(kind, 7)
    rounding = 1e-12 if kind == reference.LOGISTIC else 1e-25
    assert 0.0 < rows.gradient()["sums"][2] < rounding * rows.cost.sum()


@pytest.mark.parametrize("kind", PROXIMAL)
def test_around_a_center(kind):
    """Value, gradient and Hessian, and the gap of the alpha there."""
    rows = Rows(kind, 7)
    found, values = rows.gradient(), rows.gradient()["values"]
    assert 0.5 * rows.w @ rows.w + values[VALUE] == pytest.approx(rows.value(rows.w), rel=1e-12)
    C = np.where(rows.cost > 0, rows.cost, 1.0)
    moved = (WIDTH / (2 * C) * (rows.alpha() - rows.center) ** 2).sum()
    unexplained = rows.target - (BIAS * rows.w[-1] if kind == reference.L1_SVR else 0.0)
    sums = [moved, rows.cost.sum(), rows.cost @ np.abs(unexplained)]
    np.testing.assert_allclose(values[[MOVED, COSTS, TARGETS]], sums, rtol=1e-12)
    free = rows.curvature() > 0
    assert 0 < free.sum() < np.count_nonzero(rows.cost)
    slope = [(rows.value(rows.w + e) - rows.value(rows.w - e)) / 2e-6 for e in 1e-6 * np.eye(9)]
    np.testing.assert_allclose(rows.w - found["pull"], slope, rtol=1e-6, atol=1e-6)
    p = rows.X, rows.target, rows.cost
    value = reference.primal_value(*p, rows.w, kind, EPSILON)
    gap = value - reference.dual_value(*p, found["alpha"], kind, EPSILON)
    gradient = rows.w - found["pull"]
    assert found["sums"][2] + 0.5 * gradient @ gradient == pytest.approx(gap, rel=1e-10)


@pytest.mark.parametrize("kind", PROXIMAL)
def test_of_infinite_width_alpha_are_the_center(kind):
    rows = Rows(kind, 7)
    rows.width = np.inf
    found = rows.gradient()
    np.testing.assert_array_equal(found["alpha"], rows.center)
    assert not found["hessian"].any()
    assert found["values"][MOVED] == 0.0


@pytest.mark.parametrize("kind", SMOOTH)
def test_the_gap_is_half_the_square_of_the_gradient(kind):
    rows = Rows(kind, 7)
    found = rows.gradient()
    p, epsilon = (rows.X, rows.target, rows.cost), EPSILON
    value = reference.primal_value(*p, rows.w, rows.kind, epsilon)
    gap = value - reference.dual_value(*p, found["alpha"], rows.kind, epsilon)
    gradient = rows.w - found["pull"]
    assert 0.5 * gradient @ gradient == pytest.approx(gap, rel=1e-10)
    step = 1e-6 * np.eye(9)
    slope = [
        (
            reference.primal_value(*p, rows.w + e, rows.kind, epsilon)
            - reference.primal_value(*p, rows.w - e, rows.kind, epsilon)
        )
        / 2e-6
        for e in step
    ]
    np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-4)


def test_a_hessian_that_is_not_wanted_changes_nothing(rows):
    one, other = rows.gradient(), rows.gradient(whole=False)
    del one["hessian"], other["hessian"]
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


def test_a_product_is_that_of_the_hessian(rows):
    found, v = rows.gradient(), np.arange(9.0) - 4
    H = found["hessian"] + np.tril(found["hessian"], -1).T
    np.testing.assert_allclose(rows.product(found["alpha"], v), H @ v, rtol=1e-10, atol=1e-12)


def test_rows_of_no_cost_are_as_if_they_were_not_there(rows):
    found, kept = rows.gradient(), rows.cost > 0
    assert not found["alpha"][~kept].any()
    starts, stops, indices, values, sq_norm = rows.cut
    rows.cut = starts[kept], stops[kept], indices, values, sq_norm[kept]
    rows.X, rows.target, rows.cost = rows.X[kept], rows.target[kept], rows.cost[kept]
    rows.center = rows.center[kept]
    alone = rows.gradient()
    for name in ("pull", "diagonal", "hessian", "sums", "reach", "values"):
        assert found[name].tobytes() == alone[name].tobytes(), name


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_many_models_do_what_each_does(kind, whole):
    """Some evaluate, some multiply; the rows of a fold are left out of one."""
    rng, rows = np.random.default_rng(3), Rows(kind, 5)
    M, P, n = 3, 4, 9
    code, fold = rng.integers(0, 3, 30).astype(np.int32), rng.integers(0, 2, 30).astype(np.int32)
    positive, held_out = np.array([0, 1, 2], np.int32), np.array([-1, 1, -1], np.int32)
    cost, weight = rng.uniform(0.2, 2.0, (M, 2)), rng.uniform(0.5, 2.0, 30)
    evaluates, V = np.array([True, True, False]), np.zeros((n, P))
    V[:, :M] = rng.normal(size=(n, M))
    alpha = np.full((30, M), 0.1)
    before = alpha.copy()
    out, diagonal = np.zeros((n, P)), np.zeros((n, P))
    hessians = np.zeros((M, n, n) if whole else (0, 0, 0))
    sums, reach, values = (np.zeros((M, n)) for n in (N_SUMS, N_REACHES, N_VALUES))
    center, widths = rng.uniform(0, 0.2, (30, M)), np.array([0.3, 0.4, 0.5])
    primal.newton_many(
        rows.cut, (rows.target, code, fold, weight), (positive, held_out, cost, kind, EPSILON),
        BIAS, evaluates, V, np.linalg.norm(V[:, :M], axis=0), center, widths,
        alpha, out, diagonal, hessians, sums, reach, values,
    )  # fmt: skip
    for j in range(M):
        if kind < reference.L1_SVR:
            rows.target = np.where(code == positive[j], 1.0, -1.0)
        C = weight * cost[j][(rows.target > 0).astype(int)]
        rows.cost, rows.w = np.where(fold == held_out[j], 0.0, C), V[:, j].copy()
        rows.center, rows.width = center[:, j].copy(), widths[j]
        if evaluates[j]:
            one = rows.gradient(whole)
            found = {
                "alpha": alpha[:, j], "pull": out[:, j], "diagonal": diagonal[:, j],
                "sums": sums[j], "reach": reach[j], "values": values[j],
            }  # fmt: skip
            if whole:
                found["hessian"] = hessians[j]
            for name, value in found.items():
                np.testing.assert_allclose(value, one[name], rtol=1e-10, atol=1e-13, err_msg=name)
        else:
            product = rows.product(np.where(rows.cost > 0, before[:, j], 0.0), rows.w)
            np.testing.assert_allclose(out[:, j], product, rtol=1e-10, atol=1e-13)
            for left in (diagonal[:, j], sums[j], reach[j]):
                assert not left.any()
            assert (alpha[:, j] == before[:, j]).all()
    assert not out[:, M:].any()
    assert not diagonal[:, M:].any()


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_a_system_is_solved_from_its_lower_triangle(n):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n + 3, n))
    H, x = A.T @ A + np.eye(n), rng.normal(size=n)
    lower, found = np.tril(H) + np.triu(np.full((n, n), np.nan), 1), x.copy()
    assert curvature_along(lower, x) == pytest.approx(x @ H @ x)
    assert primal.solve(lower, found)
    np.testing.assert_allclose(H @ found, x, rtol=1e-9, atol=1e-9)


def test_a_system_that_is_not_positive_definite_is_refused():
    assert not primal.solve(np.array([[1.0, 0.0], [2.0, 1.0]]), np.ones(2))
    assert not primal.solve(np.array([[np.nan]]), np.ones(1))
