from fractions import Fraction

import numpy as np
import pytest
import reference
from effort import EXTENSIVE
from training.small import SELECTIONS, Heard, Problem, random_problem, split_problem

from blocklinear.events import OuterIteration
from blocklinear.kernels import dual
from blocklinear.kernels.losses import GAP_TERM_BOUND, HINGE, LOSS, N_REACHES
from blocklinear.model.linear import LinearModel
from blocklinear.objectives.certificate import Proof, balance, prove, relative_gaps
from blocklinear.objectives.tasks import make_task
from blocklinear.solvers.single import SingleModel
from blocklinear.store.prefetch import GroupLoader
from blocklinear.training import train
from blocklinear.training.permutations import block_groups

STOPS = [
    {"max_outer": 1},
    {"max_outer": 2},
    {"max_outer": 3},
    {"time_limit_s": 1e-9},
    {"tolerance": 0.5, "max_outer": 500},
    {"gap": 0.01, "max_outer": 500},
    {"gap": 1e-6, "max_outer": 500},
    {"gap": 1e-3, "tolerance": 0.1, "max_outer": 500, "epochs": 3},
    {"gap": 1e-4, "max_outer": 500, "epochs": None},
]


@pytest.mark.parametrize("seed", range(40 if EXTENSIVE else 20))
def test_no_model_is_further_from_the_optimum_than_its_gap(tmp_path, seed):
    problem, rng = random_problem(seed), np.random.default_rng(seed)
    n_blocks = int(rng.integers(1, 6))
    store = split_problem(tmp_path, problem, n_blocks, renumber=False)
    optimum = problem.optimum()
    for stop in STOPS:
        heard, group = Heard(), int(rng.integers(1, n_blocks + 1))
        how = {"group": group, "seed": seed, "selection": str(rng.choice(SELECTIONS))} | stop
        trained = train(store, problem.options(**how), heard)
        trained.save(tmp_path / "model")
        model = LinearModel.load(tmp_path / "model")
        proof = model.metadata["certificate"]

        assert problem.primal_of(model) == pytest.approx(proof["primal"], rel=1e-12)
        assert proof["primal"] - optimum <= proof["gap"] * proof["primal"]
        assert proof["dual"] <= optimum * (1 + 1e-12)
        assert proof["drift"] < 1e-11
        assert model.labels == (() if problem.regression else (1.0, -1.0))
        assert model.bias == problem.bias
        certified = [event for event in heard.of(OuterIteration) if event.certified]
        assert certified[-1].gap == proof["gap"]
        for event in certified:
            assert event.primal - optimum <= event.gap * event.primal
            assert event.dual <= optimum * (1 + 1e-12)


def loaded_rows(store, problem, group):
    """Dense rows, as the store holds them, in the order in which a pass over it meets them."""
    with GroupLoader(store, group, 1) as loader:
        passed = block_groups(0, 1, len(store.manifest.blocks), group)
        numbers = [loaded.group.row_numbers.copy() for loaded in loader.stream(passed)]
    order = np.concatenate(numbers)
    assert sorted(order) == list(range(len(problem.X)))
    return passed, order


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("better", ["w", "average"])
def test_every_term_is_that_of_the_dense_formula(tmp_path, seed, better):
    problem, rng = random_problem(seed), np.random.default_rng(seed)
    store = split_problem(tmp_path, problem, 4, renumber=False)
    passed, order = loaded_rows(store, problem, 3)
    made, kind = make_task(store.manifest, problem.options()), problem.kind
    X, t = problem.rows[order], problem.labels[order]
    X = X[:, [*range(store.manifest.n_features), -1]]
    C, epsilon = problem.costs()[order], problem.epsilon if problem.regression else 0.0

    low, high = np.clip(reference.bounds(C, kind), -2.0, 2.0)
    alpha = (low + (high - low) * rng.random(len(t))) * (rng.random(len(t)) < 0.7)
    model, start = SingleModel(made, store.manifest, problem.options(), tmp_path), 0
    for blocks in passed:
        stop = start + sum(store.manifest.blocks[b].rows for b in blocks)
        model.alpha.write(blocks, alpha[start:stop])
        start = stop
    w, average = rng.normal(size=(2, X.shape[1]))
    (average if better == "w" else w)[:] *= 50.0

    with GroupLoader(store, 3, 1) as loader:
        model.W[:, 0], model.average[:, 0], model._points[0] = w, average, 2.0
        proof = Proof(model.W, [model.W, model.average], 1)
        for loaded in loader.stream(passed):
            model.certify_group(loaded.group, proof)
    (found,), recomputed = model.certificates(proof), proof.recomputed[:, 0]

    primals = [reference.primal_value(X, t, C, v, kind, epsilon) for v in (w, average)]
    dual = reference.dual_value(X, t, C, alpha, kind, epsilon)
    assert found.average == (better == "average")
    assert found.primal == pytest.approx(min(primals), rel=1e-12)
    assert found.dual <= dual + 1e-14 * found.primal
    assert found.dual == pytest.approx(dual, rel=1e-10, abs=1e-10)
    difference = (found.primal - found.dual) / found.primal
    assert difference <= found.gap <= difference * (1 + 1e-8) + 1e-15
    expected = reference.weights(X, t, C, alpha, kind)
    np.testing.assert_allclose(recomputed, expected, rtol=1e-12, atol=1e-12)
    drift = np.linalg.norm(w - recomputed) / np.linalg.norm(recomputed)
    assert found.drift == pytest.approx(drift, rel=1e-9)


def test_the_gap_of_estimates_is_not_negative():
    dual, left = np.array([[1.0, 1.0], [1.0, -1e-15], [0.0, 0.0]]).T
    assert relative_gaps(dual, left).tolist() == [0.5, 0.0, 0.0]


def test_what_overflowed_proves_nothing():
    for wrong in (np.nan, np.inf):
        for at in (LOSS, GAP_TERM_BOUND):
            sums = np.array([1.0, 0.0, 0.0, 0.0])
            sums[at] = wrong
            found = prove(2.0, 0.0, sums, np.zeros(N_REACHES), 3, 0.0, average=False)
            assert not np.isfinite([found.primal, found.dual]).all()
            assert found.gap == np.inf


def test_the_rounding_of_the_recomputed_w_is_part_of_the_gap():
    """10^9 rows that add up to nothing: w' may be anything within what was lost on the way."""
    reach, sums = np.array([1e9, 1e9, 5e8, 5e8]), np.array([1.0, 0.0, 0.0, 0.0])
    found = prove(2.0, 0.0, sums, reach, 10**9, 0.0, average=False)
    lost = 1e9 * 2.0**-53 * 1e9
    assert found.gap >= 0.5 * lost**2 / 2.0
    assert found.gap <= 0.52 * lost**2 / 2.0


def test_alpha_that_sums_lose_are_missing_on_the_other_side():
    """A free bias alone, hinge loss: 1000 rows of weight 1e-16 next to one of each class.

    In sums of alpha the 1000 are lost to rounding: both sides seem to be alike. At a bias of 0 all
    rows have a loss of 1; with the larger class at its margin the loss is 2.
    """
    cost = np.full(1002, 1e-16)
    cost[0] = cost[-1] = 1.0
    target, none = np.append(np.ones(1001), -1.0), np.zeros(1002, np.int64)
    W, weights = np.zeros((1, 1)), np.zeros(1)
    sides = balance(*np.ones((2, 1)))
    proof = Proof(W, [W], 1, balance=sides)
    dual.certify_rows(
        (none, none, np.zeros(0, np.uint32), np.zeros(0), np.zeros(1002)), (target, cost),
        (HINGE, 0.0), 1.0, cost, sides[:, 0].copy(), weights, weights, False, np.zeros(2),
        proof.recomputed.reshape(-1), proof.sums[:, :, 0], proof.reach[:, 0],
    )  # fmt: skip
    (found,) = proof.certificates()
    assert found.primal - 2.0 <= found.gap * found.primal
    assert found.dual <= 2.0


def test_alpha_stay_in_their_domain_where_a_sum_of_them_is_negative():
    plus, minus = np.array([[-1e-9, 2.0], [3.0, 1.0], [0.0, 5.0], [0.0, 0.0], [-1.0, -1.0]]).T
    assert balance(plus, minus).T.tolist() == [[0, 0], [1 / 3, 1], [0, 0], [0, 0], [0, 0]]


def test_without_any_feature_the_model_is_zero(tmp_path):
    problem = Problem(np.zeros((6, 1)), np.array([1.0, -1, 1, 1, -1, 1]), solver=3)
    model = train(split_problem(tmp_path, problem, 3), problem.options(gap=1e-9))
    assert model.n_features == 0
    assert model.metadata["certificate"]["primal"] == model.metadata["certificate"]["dual"] == 6.0


@pytest.mark.parametrize("solver", [1, 3, 12, 13])
@pytest.mark.parametrize("seed", range(4))
def test_the_primal_is_wrong_by_no_more_than_its_rounding(tmp_path, solver, seed):
    """Large products cancel in decision values, and C makes what is left of them count."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 5)).round(3)
    X[:, :2] += 1e4 * rng.normal(size=(60, 1)).round()
    value = (X[:, 0] - X[:, 1]) + 0.1 * X[:, 2]
    labels = 0.01 * value + 0.15 if solver in (12, 13) else np.where(value > 0, 1.0, -1.0)
    problem = Problem(X, labels.round(4), solver, cost=1e6, bias=1.0)
    options = problem.options(max_outer=40, gap=1e-9)
    model = train(split_problem(tmp_path, problem, 2), options)
    proof = model.metadata["certificate"]
    assert 0.0 < proof["rounding"] < 0.1 * proof["primal"]
    off = exact_primal(problem, model) - Fraction(proof["primal"])
    assert abs(off) <= Fraction(proof["rounding"])


def exact_primal(problem, model):
    """Return P of a model as a fraction: without any rounding, of losses without logarithms."""
    w = [Fraction(x) for x in [*model.weights[:, 0].tolist(), model.bias_weights[0]]]
    total, epsilon = sum(x * x for x in w) / 2, Fraction(problem.epsilon)
    for row, label in zip(problem.rows.tolist(), problem.labels.tolist(), strict=True):
        f = sum(Fraction(x) * own for x, own in zip(row, w, strict=True))
        if problem.regression:
            lost = abs(f - Fraction(label)) - epsilon
        else:
            lost = 1 - (f if label == model.labels[0] else -f)
        power = 1 if problem.solver in (3, 13) else 2
        total += Fraction(problem.cost) * max(lost, 0) ** power
    return total
