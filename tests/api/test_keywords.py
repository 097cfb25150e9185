"""Options by keyword, by other names, and by names that there are not."""

import dataclasses
import inspect
import re
import warnings

import numpy as np
import pytest

import blocklinear
from blocklinear import AddOptions, SplitOptions, TextOptions, TrainOptions
from blocklinear.errors import UsageError, WrongTypeError
from blocklinear.events import OuterIteration, SplitProgress, Warned

FUNCTIONS = {
    "split": (SplitOptions, TextOptions),
    "add": (AddOptions, TextOptions),
    "check": (TextOptions,),
    "predict": (TextOptions,),
    "train": (TrainOptions,),
    "train_grid": (TrainOptions,),
    "cross_validate": (TrainOptions,),
}


def test_keywords_are_options(store):
    by_keyword = blocklinear.train(store, C=0.5, gap=1e-4, class_weights={-1: 2.0}, memory="300M")
    options = TrainOptions(cost=0.5, gap=1e-4, class_weights=((-1, 2.0),), memory_bytes=300 << 20)
    assert np.array_equal(by_keyword.weights, blocklinear.train(store, options).weights)
    assert by_keyword.metadata["memory_bytes"] == 300 << 20


@pytest.mark.parametrize("names", [["spam", "ham"], [2**60, 2**60 + 1]])
def test_weights_are_those_of_classes_as_they_were_given(tmp_path, names):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 20)), rng.integers(0, 2, 60)
    stores = []
    for name, labels in (("given", np.array(names)[y]), ("numbers", y)):
        with blocklinear.StoreWriter(tmp_path / name) as writer:
            writer.append(X, labels)
        stores.append(writer.store)
    given, numbers = stores
    for k in (0, 1):
        how = {"gap": 1e-7, "restart": True}
        expected = blocklinear.train(numbers, class_weights={k: 9.0}, **how)
        found = blocklinear.train(given, class_weights={names[k]: 9.0}, **how)
        assert found.given_outcomes == [names[int(label)] for label in expected.labels]
        np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-3)
        how = {"costs": [0.1, 1.0], "gap": 1e-7}
        folds = blocklinear.cross_validate(given, class_weights={names[k]: 9.0}, **how)
        same = blocklinear.cross_validate(numbers, class_weights={k: 9.0}, **how)
        assert folds.to_dict()["accuracy"] == same.to_dict()["accuracy"]
        grid = blocklinear.train_grid(given, class_weights={names[k]: 9.0}, run="grid", **how)
        np.testing.assert_allclose(grid[1].weights, found.weights, rtol=1e-3)
    with pytest.raises(UsageError, match="no class is 'eggs'"):
        blocklinear.train(given, class_weights={"eggs": 2.0})


def test_keywords_replace_those_of_an_object(store):
    options = TrainOptions(cost=3.0, gap=1e-4)
    model = blocklinear.train(store, options, cost=0.5)
    assert model.metadata["C"] == 0.5
    assert model.metadata["certificate"]["gap"] <= 1e-4
    assert options.cost == 3.0


def test_defaults_that_follow_from_keywords(store):
    model = blocklinear.train(store, tolerance=1000.0)  # no gap is asked for then
    assert model.metadata["outer_iterations"] == 1
    with pytest.warns(blocklinear.BlocklinearWarning, match="after 50 outer iterations"):
        blocklinear.train(store, method="pegasos", gap=1e-9)


def test_keywords_of_text_and_of_blocks(rows, tmp_path):
    store = blocklinear.split(rows, tmp_path / "s", blocks=2, hash_bits=4, threads=1)
    assert (len(store.manifest.blocks), store.manifest.hash_bits) == (2, 4)
    options = SplitOptions(blocks=2, text=TextOptions(hash_bits=4))
    again = blocklinear.split(rows, tmp_path / "t", options, threads=1)
    assert again.manifest.fingerprint == store.manifest.fingerprint
    added = blocklinear.add(store, rows, batch="again", allow_duplicate=True, ignore_qid=True)
    assert added.manifest.n_rows == 120
    plain = blocklinear.split(rows, tmp_path / "p", blocks=2, index_base=0)
    assert blocklinear.add(plain, rows, allow_duplicate=True, threads=1).manifest.index_base == 0
    assert blocklinear.check(rows, index_base=0).index_base == 0
    options = AddOptions(text=TextOptions(threads=1))  # names no index base
    added = blocklinear.add(plain, rows, options, batch="third", allow_duplicate=True)
    assert added.manifest.index_base == 0


def test_a_grid_and_folds_by_keyword(store):
    models = blocklinear.train_grid(store, costs=[0.1, 1.0])
    assert [model.metadata["C"] for model in models] == [0.1, 1.0]
    found = blocklinear.cross_validate(store, costs=[1.0], folds=3, solver=1)
    other = blocklinear.cross_validate(store, TrainOptions(solver=1), costs=[1.0], n_folds=3)
    of_options = blocklinear.cross_validate(store, TrainOptions(solver=1, costs=(1.0,)), folds=3)
    assert of_options.to_dict() == found.to_dict()
    assert found.to_dict() == other.to_dict()
    assert found.report.n_folds == 3


def test_the_classes_take_the_same_names():
    assert TrainOptions(C=2.0, memory="1G") == TrainOptions(cost=2.0, memory_bytes=1 << 30)
    assert dataclasses.replace(TrainOptions(C=2.0), seed=3).cost == 2.0
    with pytest.raises(
        WrongTypeError, match=r"TrainOptions has no option colst\n  fix: did .* cost"
    ):
        TrainOptions(colst=2.0)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("colst", "cost"), ("c", "C"), ("Gap", "gap"), ("max_iter", "max_outer"), ("tol", "toler"),
        ("random_state", "seed"), ("class_weight", "class_weights"), ("n_jobs", "threads"),
        ("fit_intercept", "bias"), ("memory_byte", "memory_bytes"), ("eval", "evaluate"),
    ],
)  # fmt: skip
def test_the_nearest_right_name_is_given(store, wrong, right):
    with pytest.raises(WrongTypeError) as caught:
        blocklinear.train(store, **{wrong: 1})
    assert isinstance(caught.value, TypeError)
    message = f"train() has no option {wrong}\n  fix: did you mean {right}"
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("loss", "solver"), ("penalty", "solver"), ("memory_limit", "memory"), ("Cs", "costs")],
)
def test_names_of_scikit_learn_lead_to_what_does_the_same(store, wrong, right):
    with pytest.raises(WrongTypeError) as caught:
        blocklinear.train(store, **{wrong: 1})
    assert str(caught.value).endswith(f"did you mean {right}?")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("cv", "folds"), ("n_splits", "folds"), ("scoring", "metric"), ("Cs", "costs"),
        ("metrics", "metric"), ("stratified", "stratify"),
    ],
)  # fmt: skip
def test_cross_validation_names_its_own_arguments(store, wrong, right):
    with pytest.raises(WrongTypeError) as caught:
        blocklinear.cross_validate(store, **{wrong: 1})
    assert str(caught.value).endswith(f"did you mean {right}?")


@pytest.mark.parametrize("given", ["rows.svm", [[1.0]]], ids=["text", "memory"])
@pytest.mark.parametrize(
    ("function", "wrong", "right"),
    [
        (blocklinear.predict, "proba", "probability"),
        (blocklinear.predict, "decisions", "decision"),
        (blocklinear.predict, "thread", "threads"),
        (blocklinear.evaluate, "positives", "positive"),
    ],
)
def test_prediction_names_its_own_arguments(store, given, function, wrong, right):
    model = blocklinear.train(store)
    with pytest.raises(WrongTypeError) as caught:
        function(given, model, **{wrong: True})
    message = f"{function.__name__}() has no option {wrong}\n  fix: did you mean {right}?"
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["alpha", "kernel", "sample_weight", "validation", "refit"])
def test_no_name_of_something_else_is_proposed(store, name):
    with pytest.raises(WrongTypeError, match=f"no option {name}\n  fix: it has C, average, "):
        blocklinear.train(store, **{name: 1})


def test_without_a_near_name_all_are_given(rows, tmp_path):
    with pytest.raises(
        WrongTypeError, match=r"split\(\) has no option zzz\n  fix: it has add_?|it"
    ):
        blocklinear.split(rows, tmp_path / "s", zzz=1)
    with pytest.raises(WrongTypeError, match=r"split\(\) has no option gap"):
        blocklinear.split(rows, tmp_path / "s", gap=1)


def test_two_names_of_one_option(store):
    with pytest.raises(UsageError, match="cost is given twice, under two names"):
        blocklinear.train(store, C=1.0, cost=1.0)
    with pytest.raises(UsageError, match="folds and n_folds are the same option"):
        blocklinear.cross_validate(store, folds=3, n_folds=3)
    with pytest.raises(UsageError, match="first cost of a search"):
        blocklinear.cross_validate(store, costs=[1.0], first_cost=1.0)
    with pytest.raises(UsageError, match="first cost of a search is 2000"):
        blocklinear.cross_validate(store, first_cost=2000.0)


@pytest.mark.parametrize("name", ["C", "cost"])
def test_cross_validation_takes_no_single_cost(store, name):
    with pytest.raises(UsageError, match=rf"{name} is 3, but costs.*\n  fix: give costs=\[3\]"):
        blocklinear.cross_validate(store, costs=[1.0], **{name: 3})
    with pytest.raises(UsageError, match=r"fix: give costs=\[0.1, 1.0\], or"):
        blocklinear.cross_validate(store, **{name: [0.1, 1.0]})
    with pytest.raises(UsageError, match=f"{name} is 3"):
        blocklinear.cross_validate(store, **{name: 3})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_list_every_option(name):
    parameters = inspect.signature(getattr(blocklinear, name)).parameters
    for kind in FUNCTIONS[name]:
        for field in dataclasses.fields(kind):
            assert field.name in parameters or field.name == "text"
    assert inspect.getdoc(getattr(blocklinear, name)).count("Examples\n") == 1


def test_a_warning_is_one_of_python_at_the_line_of_the_caller(store):
    with pytest.warns(blocklinear.BlocklinearWarning, match="not converged after 1 outer") as said:
        blocklinear.train(store, max_outer=1, gap=1e-9)
    assert [warning.filename for warning in said] == [__file__]


def test_a_listener_is_given_all_events_instead(store, rows, tmp_path):
    events = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blocklinear.train(store, listener=events.append, max_outer=1, gap=1e-9)
        blocklinear.split(rows, tmp_path / "s", listener=events.append)
    for kind in (OuterIteration, SplitProgress, Warned):
        assert any(isinstance(event, kind) for event in events), kind


def test_verbose_draws_a_bar(store, rows, tmp_path, capsys):
    blocklinear.split(rows, tmp_path / "s", verbose=True)
    assert "read: 100%" in capsys.readouterr().err
    blocklinear.check(rows, verbose=True)
    assert "read: 100%" in capsys.readouterr().err
    blocklinear.train(store, verbose=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "train: 100%" in printed.err
    assert "gap" in printed.err
    blocklinear.train(store, tolerance=0.1, verbose=True)
    assert re.search(r"train: [1-9]\d*it .*outer iteration \d+, gap ", capsys.readouterr().err)
    blocklinear.train(store)
    assert capsys.readouterr().err == ""


def test_verbose_draws_nothing_where_stderr_is_closed(store, rows, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    split = blocklinear.split(rows, tmp_path / "s", verbose=True)
    blocklinear.transpose(split, verbose=True)
    blocklinear.check(rows, verbose=True)
    model = blocklinear.train(store, verbose=True)
    assert model.metadata["certificate"]["gap"] <= 1e-3
    blocklinear.train(store, tolerance=0.1, verbose=True)
