"""`predict`: text or rows in memory, to arrays or to a file."""

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

import blocklinear
from blocklinear.errors import InputError, UsageError, WrongTypeError
from blocklinear.options import TextOptions


@pytest.fixture
def model(store):
    return blocklinear.train(store, solver=7)


def test_text_and_arrays_come_to_the_same(model, rows, tmp_path):
    X, y = load_svmlight_file(str(rows), n_features=model.n_features)
    labels = blocklinear.predict(rows, model)
    assert np.array_equal(labels, model.predict(X))
    assert np.array_equal(labels, blocklinear.predict(X, model))
    assert np.array_equal(labels, blocklinear.predict([str(rows)], model, threads=1))
    report = blocklinear.predict(rows, model, tmp_path / "labels", report=True)
    assert np.array_equal(labels, np.loadtxt(tmp_path / "labels"))
    assert report.score.as_dict()["accuracy"] == np.mean(labels == y)
    assert report.confusion is not None


def test_rows_in_memory_need_no_options_of_text(model, rows, monkeypatch):
    """Making them takes many times as long as to predict a row."""
    X, y = load_svmlight_file(str(rows), n_features=model.n_features)
    monkeypatch.delattr("blocklinear.api.prediction.options_of")
    assert np.array_equal(blocklinear.predict(X, model), model.predict(X))
    found = blocklinear.evaluate(X, model, y)
    assert found.score.as_dict()["accuracy"] == np.mean(model.predict(X) == y)


def test_decisions_and_probabilities(model, rows):
    X, _ = load_svmlight_file(str(rows), n_features=model.n_features)
    for given in (rows, X):
        decisions = blocklinear.predict(given, model, decision=True)
        assert decisions == pytest.approx(model.decision_function(X))
        shares = blocklinear.predict(given, model, probability=True)
        assert shares.shape == (60, 2)
        assert shares[:, 0] == pytest.approx(1 / (1 + np.exp(-decisions)))
        with pytest.raises(UsageError, match="at once"):
            blocklinear.predict(given, model, decision=True, probability=True)


def test_a_model_may_be_given_as_its_path(model, rows, tmp_path):
    model.save(tmp_path / "model")
    for path in (tmp_path / "model", str(tmp_path / "model")):
        assert np.array_equal(blocklinear.predict(rows, path), blocklinear.predict(rows, model))


def test_options_of_text_leave_the_numbers_of_features_to_the_model(rows, tmp_path):
    store = blocklinear.split(rows, tmp_path / "from0", blocks=2, index_base=0)
    model = blocklinear.train(store)
    expected = blocklinear.predict(rows, model)
    score = str(blocklinear.evaluate(rows, model))
    options = TextOptions(threads=1)  # names no index base
    assert np.array_equal(blocklinear.predict(rows, model, options=options), expected)
    blocklinear.predict(rows, model, tmp_path / "labels", options=options)
    assert np.array_equal(np.loadtxt(tmp_path / "labels"), expected)
    assert str(blocklinear.evaluate(rows, model, options=options)) == score
    other = blocklinear.predict(rows, model, options=TextOptions(index_base=1), decision=True)
    assert np.array_equal(other, blocklinear.predict(rows, model, index_base=1, decision=True))
    assert not np.array_equal(other, blocklinear.predict(rows, model, decision=True))


def test_more_classes_and_values(store, rows, tmp_path):
    three = tmp_path / "three.svm"
    three.write_text("".join(f"{i % 3} {1 + i % 3}:1 4:{i % 5}\n" for i in range(30)))
    made = blocklinear.split(three, tmp_path / "three", blocks=2)
    model = blocklinear.train(made)
    assert blocklinear.predict(three, model, decision=True).shape == (30, 3)
    assert set(blocklinear.predict(three, model)) == {0.0, 1.0, 2.0}
    model = blocklinear.train(store, solver=13)
    values = blocklinear.predict(rows, model)
    assert values.shape == (60,)
    assert len(set(values)) > 10


def test_what_does_not_go_together(model, store, rows, tmp_path):
    wrongs = ({"output": tmp_path / "o"}, {"strict": True}, {"index_base": 1}, {"positive": 1})
    for wrong in wrongs:
        with pytest.raises(UsageError, match="rows in memory"):
            blocklinear.predict(np.ones((2, 3)), model, **wrong)
    with pytest.raises(UsageError, match="give output"):
        blocklinear.predict(rows, model, report=True)
    with pytest.raises(WrongTypeError, match=r"predict\(\) has no option outputs"):
        blocklinear.predict(rows, model, outputs="o")
    with pytest.raises(WrongTypeError, match="model is int, but must be a LinearModel"):
        blocklinear.predict(rows, 3)
    other = blocklinear.train(store)
    with pytest.raises(UsageError, match="probability output is only supported for logistic"):
        blocklinear.predict(rows, other, probability=True)
    wide = tmp_path / "wide.svm"
    wide.write_text("1 99:1\n")
    with pytest.raises(InputError, match="index 99 is not one of the"):
        blocklinear.predict(wide, model, strict=True)
    with pytest.raises(InputError, match=r"index 99 makes more features than max_features") as few:
        blocklinear.predict(wide, model, max_features=4)
    assert few.value.fix == "give a larger max_features, or none"


def test_classes_that_are_text_are_named_so(tmp_path):
    X, y = np.eye(4), np.array(["spam", "ham"] * 2)
    with blocklinear.StoreWriter(tmp_path / "named") as writer:
        writer.append(X, y)
    model, rows = blocklinear.train(writer.store), tmp_path / "rows.svm"
    rows.write_text("1 1:1\n0 2:1\n")
    for name in ("ham", "spam"):
        report = blocklinear.predict(rows, model, tmp_path / "o", report=True, positive=name)
        assert report.confusion.summary() == f"F1 = 0 (positive class {name})"
    with pytest.raises(UsageError, match="label is 'eggs', which is no class of the model"):
        blocklinear.predict(rows, model, tmp_path / "o", report=True, positive="eggs")


def test_no_rows_make_an_empty_array(model, tmp_path):
    (tmp_path / "none.svm").write_text("")
    assert blocklinear.predict(tmp_path / "none.svm", model).shape == (0,)
