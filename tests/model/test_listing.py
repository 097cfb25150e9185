"""`convert --to json`: weights by name, the largest first."""

import json

import numpy as np
import pytest

from blocklinear.cli.main import main
from blocklinear.model.linear import LinearModel


def listed(tmp_path, model, *flags):
    model.save(tmp_path / "model")
    arguments = ["convert", str(tmp_path / "model"), str(tmp_path / "w.json"), "--to", "json"]
    assert main([*arguments, *flags]) == 0
    return json.loads((tmp_path / "w.json").read_text())


def make_model(weights, **parts):
    weights = np.array(weights, np.float64)
    parts = {
        "bias_weights": np.zeros(weights.shape[1]), "bias": -1.0, "labels": (2.0, 1.0),
        "solver": "L2R_LR_DUAL", "index_base": 1, "metadata": {},
    } | parts  # fmt: skip
    return LinearModel(weights=weights, **parts)


def test_two_classes_by_number(tmp_path):
    certificate = {"gap": 1e-4, "primal": 2.0, "dual": 1.9}
    model = make_model(
        [[0.5], [0.0], [-2.0], [0.5]], bias=1.0, bias_weights=np.array([0.25]),
        metadata={"certificate": certificate, "C": 3.0},
    )  # fmt: skip
    found = listed(tmp_path, model)
    assert found["format"] == "blocklinear weights"
    assert found["classes"] == [2, 1]
    assert (found["bias"], found["C"], found["certificate"]) == (1.0, 3.0, certificate)
    assert (found["features"], found["nonzero_weights"], found["recipe"]) == (4, 3, None)
    assert found["decisions"] == [
        {"class": 2, "bias_weight": 0.25, "weights": [[3, -2.0], [1, 0.5], [4, 0.5]]}
    ]


def test_nu_of_a_one_class_model(tmp_path):
    model = make_model([[0.5]], solver="ONECLASS_SVM", labels=(), metadata={"nu": 0.1}, rho=2.0)
    found = listed(tmp_path, model)
    assert (found["nu"], found["C"], found["rho"]) == (0.1, None, 2.0)


def test_several_classes_of_text_and_names_of_columns(tmp_path):
    model = make_model(
        [[1.0, 0.0, -1.0], [3.0, 0.0, 0.5], [0.0, 0.0, 1e-300]], labels=(1.0, 2.0, 3.0),
        classes={1.0: "a", 2.0: "b", 3.0: "c"}, feature_names=("age", "Größe"),
    )  # fmt: skip
    found = listed(tmp_path, model)
    assert [decision["class"] for decision in found["decisions"]] == ["a", "b", "c"]
    assert [decision["weights"] for decision in found["decisions"]] == [
        [["Größe", 3.0], ["age", 1.0]], [], [["age", -1.0], ["Größe", 0.5], [3, 1e-300]],
    ]  # fmt: skip
    assert found["bias"] is None
    top = listed(tmp_path, model, "--top", "1")
    assert [decision["weights"] for decision in top["decisions"]] == [
        [["Größe", 3.0]], [], [["age", -1.0]],
    ]  # fmt: skip


def test_regression_of_hashes(tmp_path):
    model = make_model(
        [[0.0], [2.0]], labels=(), solver="L2R_L2LOSS_SVR_DUAL", index_base=0,
        metadata={"hash_bits": 1},
    )  # fmt: skip
    found = listed(tmp_path, model)
    assert found["decisions"] == [
        {"class": None, "bias_weight": None, "weights": [["hash 1", 2.0]]}
    ]


def test_tables_by_column_and_value(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from blocklinear.options import TrainOptions
    from blocklinear.tables.infer import TableOptions
    from blocklinear.tables.split import split_tables
    from blocklinear.training.loop import train

    table = {"n": [1.0, None, 3.0, 4.0], "city": ["Rome", "Paris", None, "Rome"], "y": [0, 1, 1, 0]}
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    store = split_tables([str(tmp_path / "t.parquet")], tmp_path / "s", TableOptions("y"))
    found = listed(tmp_path, train(store, TrainOptions(solver=1)))
    weights = dict(found["decisions"][0]["weights"])
    assert set(weights) == {"n", "n=missing", "city=Rome", "city=Paris", "city=missing"}
    sizes = [abs(w) for w in weights.values()]
    assert sizes == sorted(sizes, reverse=True)
    assert weights["city=Rome"] > 0 > weights["city=Paris"]
    assert found["recipe"]["target"] == {"name": "y", "kind": "number"}
    assert "dictionary" not in found["recipe"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--to", "json", "--top", "0"], "0 weights are asked for"),
        (["--to", "native", "--top", "3"], "--top is for weights that are listed"),
    ],
)
def test_refused(tmp_path, capsys, flags, message):
    make_model([[1.0]]).save(tmp_path / "model")
    assert main(["convert", str(tmp_path / "model"), str(tmp_path / "out"), *flags]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_only_a_list_of_weights_is_replaced(tmp_path, capsys):
    model = make_model([[1.0]])
    listed(tmp_path, model)
    assert listed(tmp_path, model)["features"] == 1
    (tmp_path / "w.json").write_text("{}")
    assert main(
        ["convert", str(tmp_path / "model"), str(tmp_path / "w.json"), "--to", "json"]
    ) == 2  # fmt: skip
    assert "exists and is no list of weights" in capsys.readouterr().err
    assert (tmp_path / "w.json").read_text() == "{}"
