"""Tables at the command line: what is printed, and with which status."""

import json

import pytest

from blocklinear.cli.main import main
from blocklinear.store.store import BlockStore

pa = pytest.importorskip("pyarrow")

from .build import make_table, write  # noqa: E402


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run a command line in a folder with tables `a.parquet` and `b.csv`."""
    monkeypatch.chdir(tmp_path)
    table = make_table()
    write(table, tmp_path / "a.parquet")
    write(table.slice(0, 100), tmp_path / "b.csv")

    def run(line):
        status = main(line.split())
        done = capsys.readouterr()
        return status, done.out, done.err

    assert run("split a.parquet s --target y -q --memory 256M")[0] == 0
    return run


def test_a_batch_that_is_there_is_not_added_again(run):
    assert run("add s b.csv --if-absent --batch tuesday -q")[0] == 0
    for line in ("add s b.csv --if-absent -q", "add s b.csv --if-absent --batch tuesday -q"):
        status, out, _ = run(line)
        assert (status, out) == (
            0, "batch tuesday is in the store already, which has 700 rows\n",
        )  # fmt: skip
    status, _, err = run("add s a.parquet --if-absent --batch tuesday -q")
    assert status == 5
    assert "batch tuesday is not of this input" in err
    assert run("add s b.csv -q")[0] == 5
    assert BlockStore.open("s").manifest.n_rows == 700


def test_a_batch_with_weights_in_a_column(run):
    assert run("split a.parquet w --target y --weight code -q --memory 256M")[0] == 0
    status, out, _ = run("add w a.parquet --if-absent -q")
    assert (status, out) == (0, "batch b1 is in the store already, which has 600 rows\n")


@pytest.mark.parametrize("flags", ["--eval b.csv", "-c 0.1,1 --best-on b.csv"])
def test_held_out_rows_are_of_text(run, flags):
    status, _, err = run(f"train s m {flags} -q")
    assert status == 2
    assert f"{flags.split()[-2]} is for stores of text, and s is made of tables" in err
    assert "blocklinear predict TABLE MODEL OUT" in err


def test_from_table_to_predictions(run, tmp_path):
    assert run("train s m -s 7 -q --memory 256M")[0] == 0
    status, out, _ = run("predict b.csv m out.csv -b 1 --json --keep city --memory 256M")
    assert status == 0
    assert json.loads(out)["rows"] == 100
    head = (tmp_path / "out.csv").read_text().splitlines()[0]
    assert set(head.split(",")) == {'"city"', '"prediction"', '"probability_0"', '"probability_1"'}
    status, out, _ = run("info m")
    assert "target: y" in out
    assert run("convert m w.json --to json --top 3")[0] == 0
    assert len(json.loads((tmp_path / "w.json").read_text())["decisions"][0]["weights"]) == 3
