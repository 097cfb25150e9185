"""The one-class SVM on stores: to LIBLINEAR's optimum, certified, resumed with the same bits."""

import contextlib
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import optima
import pytest
from effort import EXTENSIVE

from blocklinear.errors import InputError, MemoryBudgetError, UsageError
from blocklinear.events import OuterIteration, Warned
from blocklinear.ingest.add import add
from blocklinear.ingest.split import split
from blocklinear.model.linear import LinearModel
from blocklinear.options import AddOptions, SplitOptions, TextOptions, TrainOptions
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.store.changes import remove
from blocklinear.training import train
from blocklinear.training.memory_plan import plan_memory
from training.small import Heard, as_text, outcome, split_text, without_pins
from training.test_resume import check

DATA = Path(__file__).parents[1] / "data"
N_BLOCKS = 5
LIBLINEAR = {
    "heart_scale": (-0.267425756013, -53.121307876, -5449.19442931, -34460.6946554),
    "a9a": (-180123.032133, -21622408.0228, -688013689.397, -2561384798.47),
    "agaricus": (-17653.5949443, -1888412.11308, -51774955.9508, -177652613.287),
    "covtype20k_bin": (-7712.08319539, -1327733.05617, -55462192.0088, -232246649.471),
    "phishing": (-1031.62674166, -108610.549154, -3104933.32371, -11393508.3678),
}
"""-1/2 |w|**2 of LIBLINEAR 2.50, ``-s 21 -e 1e-8``, for nu of 0.01, 0.1, 0.5 and 0.9.

For phishing and 0.01 it ends at its limit of 1000 iterations.
"""


def how(**options):
    own = {"solver": 21, "nu": 0.3, "threads": 2, "memory_bytes": 1 << 30, "gap": 1e-6}
    return TrainOptions(**(own | options))


def rows(seed=1, n=120, d=20, away=0.4):
    """Sparse rows, most of them on one side."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) + away).round(2) * (rng.random((n, d)) < 0.4)
    X[:, 0] += away
    return X


def store_of(folder, X, blocks=N_BLOCKS, weights=None, name="store", **options):
    if weights is not None:
        options["weights"] = str(folder / f"{name}.weights")
        text = "".join(f"{weight!r}\n" for weight in weights.tolist())
        (folder / f"{name}.weights").write_text(text)
    labels = np.arange(len(X)) % 3 + 5.0
    return split_text(folder, as_text(X, labels), blocks, name, **options)


def weights_of(model, X):
    w = np.zeros(X.shape[1])
    w[: model.n_features] = model.weights[:, 0]
    return w


def assert_proven(model, X, U, nu):
    """The certificate is that of the model, and true."""
    found = model.metadata["certificate"]
    T = nu * U.sum()
    low, up = optima.one_class(X, U, T)
    own = optima.one_class_primal(X, U, T, weights_of(model, X), model.rho)
    size = 0.5 * weights_of(model, X) @ weights_of(model, X) + abs(model.rho) * T
    assert found["primal"] == pytest.approx(own, abs=1e-11 * size)
    assert found["dual"] <= up + 1e-11 * size
    assert found["primal"] - found["dual"] >= found["primal"] - up - 1e-11 * size
    assert found["rho"] == model.rho
    return low, up


@pytest.mark.parametrize("group", [2, 8])
@pytest.mark.parametrize("name", LIBLINEAR)
def test_the_optimum_of_liblinear(tmp_path, name, group):
    text = TextOptions(memory_bytes=256 << 20)
    source = DATA / f"{name}.train.svm.bz2"
    store = split([source], tmp_path / "store", SplitOptions(text=text, blocks=8))
    for nu, best in zip((0.01, 0.1, 0.5, 0.9), LIBLINEAR[name], strict=True):
        model = train(store, how(nu=nu, group=group, gap=1e-8, restart=True))
        found = model.metadata["certificate"]
        assert found["gap"] <= 1e-8
        assert found["primal"] <= best + 1e-6 * abs(best)
        assert found["dual"] <= best + 2e-7 * abs(best)


@pytest.mark.parametrize("seed", range(120 if EXTENSIVE else 30))
def test_certificates_of_random_problems_are_true(tmp_path, seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 8))
    X = rows(seed, n, d, away=rng.choice([0.0, 0.4, 3.0])) * 10.0 ** rng.uniform(-2, 2)
    U = np.ones(n) if seed % 3 else rng.integers(0, 5, n).astype(float)
    U[0] = max(U[0], 1.0)
    nu = float(rng.choice([0.01, 0.1, 0.5, 0.9, 1.0]))
    store = store_of(tmp_path, X, min(1 + seed % 4, n), None if seed % 3 else U)
    heard = Heard()
    model = train(store, how(nu=nu, gap=1e-5, group=None if seed % 2 else 2), heard)
    low, up = assert_proven(model, X, U, nu)
    for event in heard.of(OuterIteration):
        assert not event.certified or event.dual <= up + 1e-11 * abs(low)
    found = model.metadata["certificate"]
    if model.metadata["stopped"] == "converged":
        assert found["gap"] <= 1e-5


@pytest.mark.parametrize("nu", [0.2, 1.0])
def test_rows_of_weight_k_count_k_times(tmp_path, nu):
    X, weights = rows(), np.random.default_rng(0).integers(0, 4, 120).astype(float)
    one = train(store_of(tmp_path, X, 5, weights), how(nu=nu, gap=1e-9, group=2))
    repeated = np.repeat(X, weights.astype(int), axis=0)
    other = train(store_of(tmp_path, repeated, name="repeated"), how(nu=nu, gap=1e-9))
    ours, theirs = one.metadata["certificate"], other.metadata["certificate"]
    assert ours["primal"] == pytest.approx(theirs["primal"], rel=2e-9)
    assert_proven(one, X, weights, nu)


def test_weights_of_any_size(tmp_path):
    X, weights = rows(), 10.0 ** np.random.default_rng(0).uniform(-9, 3, 120)
    model = train(store_of(tmp_path, X, 5, weights), how(nu=0.4, gap=1e-7, group=2))
    assert model.metadata["certificate"]["gap"] <= 1e-7
    assert_proven(model, X, weights, 0.4)


def test_blocks_without_a_row_of_any_weight(tmp_path):
    X, weights = rows(), np.ones(120)
    weights[24:] = 0.0  # four of five blocks: the gap is estimated from two of them, too
    store = store_of(tmp_path, X, 5, weights, order="file")
    model = train(store, how(nu=0.4, gap=1e-7, group=2))
    assert model.metadata["certificate"]["gap"] <= 1e-7
    assert_proven(model, X, weights, 0.4)


def test_at_most_a_share_of_nu_are_outliers(tmp_path):
    X = rows()
    for nu in (0.05, 0.3, 0.8):
        model = train(store_of(tmp_path, X, name=f"store{nu}"), how(nu=nu))
        outliers = (X @ weights_of(model, X) < model.rho).sum()
        assert nu * 120 - 25 <= outliers <= nu * 120
        predicted = model.predict(X[:, : model.n_features])
        assert set(predicted) <= {1.0, -1.0}


def test_where_no_plane_separates_w_is_zero_and_it_is_said(tmp_path):
    X = rows()
    both = np.vstack([X, -X])
    heard = Heard()
    model = train(store_of(tmp_path, both), how(nu=0.6, gap=1e-3), heard)
    assert model.metadata["stopped"] == "converged"
    assert (model.weights == 0.0).all()
    assert model.rho == 0.0
    assert model.metadata["certificate"]["primal"] == 0.0
    (warned,) = heard.of(Warned)
    assert "no plane separates" in warned.message
    heard.clear()
    train(store_of(tmp_path, X, name="one-sided"), how(), heard)
    assert not heard.of(Warned)


def test_a_larger_nu_separates_rows_from_0_that_a_smaller_one_does_not(tmp_path):
    X = np.random.default_rng(0).normal((1.0, 0.5, 0.0), size=(200, 3))
    store = store_of(tmp_path, X)
    heard = Heard()
    for nu in (0.05, 0.3):
        assert not train(store, how(nu=nu), heard).weights.any()
        (warned,) = heard.of(Warned)
        assert warned.message.endswith("do not centre the features, or raise nu")
        heard.clear()
    assert train(store, how(nu=0.5), heard).weights.any()
    assert not heard.of(Warned)


def test_where_w_is_zero_no_more_iterations_are_advised(tmp_path):
    centred = np.random.default_rng(0).normal(size=(200, 8))
    centred[:, 3] = 2 * centred[:, 0] - centred[:, 1]
    heard = Heard()
    model = train(store_of(tmp_path, centred), how(nu=0.2, gap=1e-12, max_outer=8), heard)
    assert model.metadata["stopped"] == "8 outer iterations"
    assert (model.weights == 0.0).all()
    assert ["no plane separates" in warned.message for warned in heard.of(Warned)] == [True]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"group": 5},
        {"epochs": 2},
        {"selection": "permute"},
        {"gap": None, "tolerance": 1e-3},
        {"nu": 1.0},
        {"sample_blocks": 4},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_run_that_is_resumed_has_the_same_bits(tmp_path, changes, weighted):
    X = rows()
    weights = np.random.default_rng(0).random(120) if weighted else None
    store = store_of(tmp_path, X, weights=weights)
    check(store, how(**({"group": 2, "gap": 1e-7, "max_outer": 8, "run": "whole"} | changes)))


@pytest.mark.parametrize("group", [None, 2])
def test_a_run_of_one_block_is_resumed(tmp_path, group):
    check(store_of(tmp_path, rows(), 1), how(group=group, gap=1e-7, max_outer=8, run="whole"))


def test_threads_and_pins_change_nothing(tmp_path):
    store = store_of(tmp_path, rows())
    options = how(group=2, threads=1, max_outer=6, gap=1e-9)
    one = outcome(store, options)
    assert outcome(store, replace(options, threads=3, restart=True)) == one
    assert outcome(store, replace(without_pins(store, options), restart=True)) == one


@pytest.mark.parametrize("group", [2, None])
@pytest.mark.parametrize("nu", [0.05, 0.3, 0.7, 1.0])
def test_a_warm_start_with_another_nu_reaches_the_same_optimum(tmp_path, nu, group):
    X = rows()
    store = store_of(tmp_path, X)
    train(store, how(group=group))
    warm = train(store, how(nu=nu, group=group, warm_start=True, gap=1e-8))
    cold = train(store, how(nu=nu, group=group, restart=True, gap=1e-8))
    found, expected = warm.metadata["certificate"], cold.metadata["certificate"]
    assert found["gap"] <= 1e-8
    assert found["primal"] == pytest.approx(expected["primal"], rel=2e-8)
    assert_proven(warm, X, np.ones(len(X)), nu)


def test_a_warm_start_after_rows_came_and_went(tmp_path):
    X, new = rows(), rows(5, 40)
    store = store_of(tmp_path, X)
    train(store, how(group=2))
    (tmp_path / "more.svm").write_text(as_text(new, np.ones(40)))
    text = TextOptions(index_base="auto", memory_bytes=256 << 20)
    store = add(store, [tmp_path / "more.svm"], AddOptions(text=text, blocks=2))
    model = train(store, how(group=2, warm_start=True))
    both = np.vstack([X, new])
    assert_proven(model, both, np.ones(160), 0.3)
    assert model.metadata["outer_iterations"] <= 30
    store = remove(store, ["b1"])
    model = train(store, how(group=2, warm_start=True))
    assert model.metadata["certificate"]["gap"] <= 1e-6
    assert_proven(model, new, np.ones(40), 0.3)


def test_a_warm_start_from_another_problem_is_not_made(tmp_path):
    X = rows()
    store = split_text(tmp_path, as_text(X, np.where(np.arange(120) % 2, 1.0, -1.0)), 3)
    train(store, TrainOptions(memory_bytes=1 << 30, gap=0.1))
    heard = Heard()
    train(store, how(warm_start=True), heard)
    assert "another kind" in heard.of(Warned)[0].message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cost": 2.0}, "does not take -c: "),
        ({"costs": (1.0, 2.0)}, "does not take -c: "),
        ({"class_weights": ((1.0, 2.0),)}, "does not take weights of classes: "),
        ({"balanced": True}, "does not take weights of classes: "),
        ({"bias": 1.0}, "does not take -B: "),
        ({"evaluate": "rows.svm"}, "does not take --eval: "),
        ({"average": True}, "does not take --average: "),
        ({"epochs": None}, "does not take --epochs auto: "),
        ({"group": 1}, "does not take --group 1: "),
        ({"selection": "shrink"}, "does not take --selection shrink: "),
        ({"nu": 0.0}, "nu is 0.0"),
        ({"nu": 1.1}, "nu is 1.1"),
        ({"nu": math.nan}, "nu is nan"),
        ({"method": "pegasos"}, "3 for pegasos"),
        ({"regularize_bias": False, "bias": 1.0}, "neither 4 nor 21"),
    ],
)
def test_what_does_not_apply_is_refused(options, said):
    with pytest.raises(UsageError, match=said):
        how(**options)


def test_cross_validation_is_refused(tmp_path):
    with pytest.raises(UsageError, match="one-class SVM does not learn"):
        cross_validate(store_of(tmp_path, rows()), how())


def test_rows_of_no_weight_are_refused(tmp_path):
    store = store_of(tmp_path, rows(), weights=np.zeros(120))
    with pytest.raises(InputError, match="all rows have weight 0"):
        train(store, how())


def test_labels_that_are_no_classes_do_not_matter(tmp_path):
    X = rows()
    one = train(split_text(tmp_path, as_text(X, np.arange(120) + 0.5), 3), how())
    other = train(split_text(tmp_path, as_text(X, np.ones(120)), 3, "same"), how())
    assert one.weights.tobytes() == other.weights.tobytes()


def test_a_group_has_two_blocks_at_least(tmp_path):
    X = np.hstack([rows(n=4000, d=20)] * 4)
    store = store_of(tmp_path, X, 40)
    least = None
    for size in range(70 << 20, 110 << 20, 1 << 16):
        with contextlib.suppress(MemoryBudgetError):
            least = plan_memory(store.manifest, how(memory_bytes=size)).group
            break
    assert least == 2
    with pytest.raises(MemoryBudgetError, match="2 of 40 blocks in a group"):
        plan_memory(store.manifest, how(memory_bytes=size - (1 << 16)))


@pytest.mark.parametrize("values", ["1e150", "1e-150", "5e-324"])
def test_values_of_any_size_make_a_model_or_an_error(tmp_path, values, recwarn):
    text = f"1 1:{values}\n-1 1:{values} 2:{values}\n1 2:-{values}\n1 1:1 3:{values}\n"
    store = split_text(tmp_path, text)
    with contextlib.suppress(InputError):  # numbers that overflow
        model = train(store, how(nu=0.5, max_outer=30))
        assert np.isfinite(model.weights).all()
        assert np.isfinite(model.rho)
    assert not recwarn.list


def test_model_files_both_ways(tmp_path):
    X = rows()
    model = train(store_of(tmp_path, X), how())
    assert model.metadata["nu"] == 0.3
    assert "C" not in model.metadata
    for form in ("native", "liblinear"):
        model.save(tmp_path / form, format=form)
        again = LinearModel.load(tmp_path / form)
        assert again.solver == "ONECLASS_SVM"
        assert (again.weights.tobytes(), again.rho) == (model.weights.tobytes(), model.rho)
        assert (again.predict(X) == model.predict(X)).all()
    lines = (tmp_path / "liblinear").read_text().splitlines()
    assert lines[:3] == ["solver_type ONECLASS_SVM", "nr_class 2", f"nr_feature {X.shape[1]}"]
    assert lines[3:6] == ["bias -1", f"rho {model.rho:.17g}", "w"]


@pytest.mark.parametrize("size", [1e7, 1e3])
def test_a_feature_of_large_values_hides_no_other_one(tmp_path, size):
    """All rows are on one side of 0 in the second feature: w = 0 is not the optimum."""
    rng = np.random.default_rng(0)
    large = rng.normal(size=60).round(3) * size
    X = np.column_stack([np.append(large, -large), 1.0 + np.abs(rng.normal(size=120)).round(3)])
    heard = Heard()
    model = train(store_of(tmp_path, X), how(nu=0.1, gap=1e-3, max_outer=60), heard)
    assert model.metadata["stopped"] == "60 outer iterations"
    assert model.metadata["certificate"]["gap"] > 1e-3
    assert not any("w = 0" in warned.message for warned in heard.of(Warned))


def test_a_model_of_no_weights_that_may_not_be_the_optimum_is_warned_of(tmp_path):
    """As of tables whose columns, from 0.1 to 1,000 in size, were centred and not scaled."""
    rng, heard = np.random.default_rng(0), Heard()
    X = rng.normal(size=(120, 6)) * 10.0 ** np.arange(-2, 4)
    model = train(store_of(tmp_path, X - X.mean(axis=0)), how(nu=0.1, max_outer=5), heard)
    assert model.metadata["stopped"] == "5 outer iterations"
    assert (model.weights == 0.0).all()
    last = heard.of(Warned)[-1]
    assert last.message.startswith("all weights are 0 so far")


@pytest.mark.parametrize("gap", [1e-6, None])
def test_where_the_optimum_is_zero_training_ends_and_says_so(tmp_path, gap):
    X = rows(away=0.0) * np.array([1.0, 10.0] * 10)
    X = np.vstack([X, -X])
    heard = Heard()
    options = how(nu=0.9, gap=gap, tolerance=None if gap else 1e-3)
    model = train(store_of(tmp_path, X), options, heard)
    assert model.metadata["stopped"] == "converged"
    assert any("the optimum is w = 0" in warned.message for warned in heard.of(Warned))
