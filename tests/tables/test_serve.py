"""Rows given as dicts are predicted as those of a table are."""

from datetime import UTC, datetime

import numpy as np
import pytest

import blocklinear
from blocklinear import TablePredictor
from blocklinear.errors import InputError, MismatchError, UsageError, WrongTypeError
from blocklinear.options import TrainOptions
from blocklinear.training.loop import train

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from blocklinear.tables.predict import predict_tables  # noqa: E402

from .build import make_table, write  # noqa: E402
from .test_split import OPTIONS, make_store  # noqa: E402

HOWS = [
    {"standardize": True},
    {"hash_bits": 12, "interactions": (("city", "member"), ("age", "day"))},
]


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize("normalize", ["none", "l2"])
def test_as_a_table(tmp_path, how, normalize):
    from dataclasses import replace

    store = make_store(
        tmp_path, make_table(words=True), options=replace(OPTIONS, normalize=normalize), **how
    )
    model = train(store, TrainOptions(solver=7, gap=1e-3))
    model.save(tmp_path / "model")
    other = make_table(seed=5, n_rows=50, words=True)
    path = write(other, tmp_path / "other.parquet")
    predict_tables(model, [str(path)], tmp_path / "out.parquet", decision=True, probability=True)
    expected = pq.read_table(tmp_path / "out.parquet").to_pydict()
    predictor, rows = TablePredictor(tmp_path / "model"), other.to_pylist()
    np.testing.assert_allclose(predictor.decision_function(rows), expected["decision"], rtol=1e-9)
    assert predictor.predict(rows).tolist() == expected["prediction"]
    for k, label in enumerate(predictor.classes.tolist()):
        found = predictor.predict_proba(rows)[:, k]
        np.testing.assert_allclose(found, expected[f"probability_{label:g}"], rtol=1e-9)
    for k in range(3):
        alone = predictor.decision_function(rows[k : k + 1])
        np.testing.assert_allclose(alone, expected["decision"][k : k + 1], rtol=1e-9)


def test_what_is_missing_or_new(tmp_path):
    table = pa.table({"x": [1.0, None, 3.0, 4.0], "c": ["a", "b", "a", None], "y": list("nyny")})
    model = train(make_store(tmp_path, table), TrainOptions(solver=1))
    predictor = TablePredictor(model)
    assert predictor.classes.tolist() == ["n", "y"]
    rows = [{"x": None, "c": None, "z": 7}, {"x": 2, "c": "new", "y": "n"}]
    assert predictor.predict(rows).shape == (2,)
    assert predictor.decision_function([]).shape == (0,)
    with pytest.raises(InputError, match="row 1 has no column c"):
        predictor.predict([rows[0], {"x": 1}])
    with pytest.raises(InputError, match="column 'x' is of type string, not number"):
        predictor.predict([{"x": "1", "c": "a"}])
    with pytest.raises(InputError, match="row 1, column x: the value inf is not finite"):
        predictor.predict([rows[0], {"x": float("inf"), "c": "a"}])
    with pytest.raises(InputError, match="column c: "):
        predictor.predict([{"x": 1, "c": "a"}, {"x": 1, "c": 1}])
    with pytest.raises(UsageError, match="probabilities are only supported"):
        predictor.predict_proba(rows)


def test_missing_values_of_data_frames(tmp_path):
    """They are those of a file of the frame: pandas writes all of them as null."""
    pd, nan = pytest.importorskip("pandas"), float("nan")
    table = make_table(words=True)
    table = table.append_column("time", pa.array(range(len(table)), pa.timestamp("s")))
    predictor = TablePredictor(train(make_store(tmp_path, table), TrainOptions(solver=1)))
    (row,) = table.slice(7, 1).to_pylist()
    for name in sorted(row.keys() - {"y"}):
        expected = predictor.decision_function([row, row | {name: None}])
        for missing in (nan, np.float64(nan), pd.NA, pd.NaT):
            found = predictor.decision_function([row, row | {name: missing}])
            assert (found == expected).all()
            alone = predictor.decision_function([row | {name: missing}])
            assert alone[0] == pytest.approx(expected[1], rel=1e-12)
    expected = predictor.decision_function([row | {"score": None}])
    assert predictor.decision_function([row | {"score": np.float32(nan)}]) == expected
    frame = table.drop_columns(["tags"]).to_pandas()
    rows = [
        r | {"tags": t}
        for r, t in zip(frame.to_dict("records"), table["tags"].to_pylist(), strict=True)
    ]
    expected = predictor.decision_function(table.to_pylist())
    np.testing.assert_allclose(predictor.decision_function(rows), expected, rtol=1e-12)


def test_no_row_has_words(tmp_path):
    table = pa.table({"w": [["a", "b"], ["b"]] * 2, "y": list("nyny")})
    model = train(make_store(tmp_path, table), TrainOptions(solver=1))
    expected = TablePredictor(model).decision_function([{"w": []}] * 3)
    assert (expected == TablePredictor(model).decision_function([{"w": None}] * 3)).all()
    for k, words in enumerate((pa.nulls(3), pa.array([[]] * 3, pa.list_(pa.null())))):
        path = write(pa.table({"w": words}), tmp_path / f"{k}.parquet")
        predict_tables(model, [str(path)], tmp_path / "out.parquet", decision=True)
        found = pa.parquet.read_table(tmp_path / "out.parquet")["decision"]
        assert found.to_pylist() == expected.tolist()


@pytest.mark.parametrize("how", [{}, {"hash_bits": 12}], ids=str)
def test_integers_of_64_bits_without_a_sign(tmp_path, how):
    """Identifiers are that often, as hashes: split took them, and a row was refused."""
    table = pa.table({"c": pa.array([1, 2**63, 2**64 - 1, None], pa.uint64()), "y": list("nyny")})
    store = make_store(tmp_path, table, categories=("c",), **how)
    predictor = TablePredictor(train(store, TrainOptions(solver=1)))
    predict_tables(train(store, TrainOptions(solver=1)), [str(tmp_path / "t.parquet")],
                   tmp_path / "out.parquet", decision=True)  # fmt: skip
    expected = pq.read_table(tmp_path / "out.parquet")["decision"].to_pylist()
    assert expected[1] != expected[2]
    assert predictor.decision_function(table.to_pylist()).tolist() == expected
    for row, decision in zip(table.to_pylist(), expected, strict=True):
        assert predictor.decision_function([row]).tolist() == [decision]
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(InputError, match="fix: give values of kind category"):
            predictor.decision_function([{"c": wrong}])


def test_text_is_no_list_of_words(tmp_path):
    table = pa.table({"w": [["a", "b"], ["b"]] * 2, "y": list("nyny")})
    train(make_store(tmp_path, table), TrainOptions(solver=1)).save(tmp_path / "model")
    predictor = TablePredictor(tmp_path / "model")
    assert predictor.predict([{"w": ["a", "b"]}, {"w": ("b",)}]).tolist() == ["n", "y"]
    with pytest.raises(InputError, match="row 1, column w: the value is text\n  fix: give a list"):
        predictor.predict([{"w": None}, {"w": "ab"}])


def test_times_with_and_without_zone(tmp_path):
    """Next to a time with a zone, those without one were read as of UTC, and so another value."""
    naive = datetime(2026, 1, 1)
    table = pa.table({"x": [1.0, 2.0], "t": [naive, None], "y": list("ny")})
    predictor = TablePredictor(train(make_store(tmp_path, table), TrainOptions(solver=1)))
    rows = [{"x": 1.0, "t": t} for t in (naive, None, np.datetime64(naive))]
    assert len(set(predictor.decision_function(rows).tolist())) == 2
    rows.append({"x": 1.0, "t": naive.replace(tzinfo=UTC)})
    with pytest.raises(InputError, match="column t: of some times the zone is given"):
        predictor.predict(rows)


@pytest.mark.parametrize("rows", [{"x": 1.0}, [[1.0]], "x", None, pa.table({"x": [1.0]})], ids=str)
def test_rows_are_dicts(tmp_path, rows):
    table = pa.table({"x": [1.0, 2.0], "y": list("ny")})
    predictor = TablePredictor(train(make_store(tmp_path, table), TrainOptions()))
    with pytest.raises(WrongTypeError, match="but must be a list of dicts"):
        predictor.predict(rows)


def test_outliers(tmp_path):
    table = pa.table({"x": [1.0, 2.0, 3.0, 9.0], "y": list("nyny")})
    model = train(make_store(tmp_path, table), TrainOptions(solver=21, nu=0.3))
    predictor = TablePredictor(model)
    assert predictor.classes.tolist() == [1.0, -1.0]
    found = predictor.predict([{"x": x} for x in table["x"].to_pylist()])
    predict_tables(model, [str(tmp_path / "t.parquet")], tmp_path / "out.parquet")
    assert found.tolist() == pq.read_table(tmp_path / "out.parquet")["prediction"].to_pylist()
    assert set(found) == {1.0, -1.0}


def test_columns_of_a_table_are_no_features(tmp_path):
    """They were taken for the first features by their places, as if not standardised."""
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "c": [1.0, 0.0, 3.0, 4.0], "y": list("nnyy")})
    model = train(make_store(tmp_path, table, standardize=True), TrainOptions())
    rows = tmp_path / "rows.svm"
    rows.write_text("1 1:1\n")
    with pytest.raises(InputError, match="features that are made of its columns"):
        model.predict(table.select(["x", "c"]))
    for ask in (blocklinear.predict, blocklinear.evaluate):
        with pytest.raises(UsageError, match="the model was trained on tables"):
            ask(rows, model)


def test_a_model_of_something_else(tmp_path):
    from blocklinear.model.linear import LinearModel

    model = LinearModel(
        weights=np.ones((2, 1)), bias_weights=np.zeros(1), bias=-1.0, labels=(1.0, 2.0),
        solver="L2R_LR_DUAL", index_base=1, metadata={},
    )  # fmt: skip
    model.save(tmp_path / "m")
    with pytest.raises(MismatchError, match="m: the model was not trained on tables"):
        TablePredictor(tmp_path / "m")


def test_integers_of_which_pandas_makes_floats_are_categories(tmp_path):
    table = pa.table({"code": [7, 3, 7, 3], "y": list("nyny")})
    store = make_store(tmp_path, table, categories=("code",))
    predictor = TablePredictor(train(store, TrainOptions(solver=1)))
    codes = [7.0, float("nan"), 3.0]
    found = predictor.decision_function([{"code": code} for code in codes])
    alone = predictor.decision_function([{"code": code} for code in (7, None, 3)])
    assert found.tolist() == alone.tolist()
