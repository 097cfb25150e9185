"""Models of tables are compared with tables, and their weights have names of columns."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402
from report.pages import Page  # noqa: E402

from blocklinear.cli.main import main  # noqa: E402
from blocklinear.errors import InputError, MemoryBudgetError, MismatchError  # noqa: E402
from blocklinear.model.linear import LinearModel  # noqa: E402
from blocklinear.options import TrainOptions  # noqa: E402
from blocklinear.report.page import Subject, page_of  # noqa: E402
from blocklinear.tables.predict import evaluate_tables, predict_tables  # noqa: E402
from blocklinear.training.loop import train  # noqa: E402

from .build import make_table, write  # noqa: E402
from .test_split import make_store  # noqa: E402


@pytest.fixture
def model(tmp_path):
    store = make_store(tmp_path, make_table())
    return train(store, TrainOptions(solver=7, memory_bytes=256 << 20, threads=2))


def test_scores_are_those_of_predict(model, tmp_path):
    test = write(make_table(seed=3), tmp_path / "test.parquet", rows_a_group=64)
    found = evaluate_tables(model, [str(test)], positive=1.0)
    report = predict_tables(model, [str(test)], tmp_path / "out.parquet", classes=True)
    assert found.score == report.score
    assert found.confusion.as_dict() == report.confusion.as_dict()
    assert found.roc()[0].name == "1"
    assert 0.5 < found.roc()[0].area < 1.0
    predictions = pq.read_table(tmp_path / "out.parquet")["prediction"].to_pylist()
    assert found.matrix()[0].sum(axis=0).tolist() == [predictions.count(0), predictions.count(1)]


def test_the_budget_that_the_guide_names_is_the_least(tmp_path):
    guide = (Path(__file__).parents[2] / "docs/how-to/tables.md").read_text()
    least = int(re.search(r"takes `--memory (\d+)M` or more", guide)[1]) << 20
    test = write(make_table(seed=3), tmp_path / "test.parquet")
    store = make_store(tmp_path, make_table())
    how = TrainOptions(evaluate=str(test), threads=2, memory_bytes=least)
    train(store, how)
    with pytest.raises(MemoryBudgetError, match="held-out rows, while they are read"):
        train(store, replace(how, memory_bytes=least - (1 << 20)))


def test_what_cannot_be_compared(model, tmp_path):
    without = write(make_table().drop(["y"]), tmp_path / "without.parquet")
    with pytest.raises(InputError, match="no column y, which is the target"):
        evaluate_tables(model, [str(without)])
    other = LinearModel(
        weights=[[1.0]], bias_weights=[0.0], bias=-1.0, labels=(1.0, 0.0), solver="L2R_LR_DUAL"
    )
    with pytest.raises(MismatchError, match="not trained on tables"):
        evaluate_tables(other, [str(without)])


def test_a_report_names_columns(model, tmp_path, capsys):
    model.save(tmp_path / "model")
    test = write(make_table(seed=3), tmp_path / "test.parquet")
    page = tmp_path / "page.html"
    command = ["report", tmp_path / "model", "--test", test, "-o", page]
    assert main([str(word) for word in command]) == 0
    shown = Page(page.read_text())
    features = [name for name, _ in shown.table("feature", "weight")]
    assert {"age", "score"} < set(features)
    assert any(name.startswith("city=") for name in features)
    assert "On the rows of test.parquet" in shown.headings
    capsys.readouterr()
    assert (
        main(["predict", str(test), str(tmp_path / "model"), str(tmp_path / "o.csv"), "--json"])
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert float(shown.facts()["accuracy"]) == pytest.approx(said["accuracy"], rel=1e-5)
    assert "age" in page_of(Subject("m", model=model))[0]
