"""Rows of tables without a target: left out where that is asked for, or where models are scored."""

import json

import numpy as np
import pytest

from blocklinear.cli.main import main
from blocklinear.store.store import BlockStore

pa = pytest.importorskip("pyarrow")

from .build import make_table, write  # noqa: E402
from .test_split import files  # noqa: E402

N_LOST = 86  # of 600 rows, each seventh


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(line):
        status = main([*line.split(), *("--memory", "512M", "-q")])
        done = capsys.readouterr()
        return status, done.out, done.err

    return run


def with_target(table, labels):
    return table.set_column(table.schema.names.index("y"), "y", labels)


def with_gaps(kind="number", **how):
    """A table of which each seventh row has no target, and its other rows."""
    table = make_table(**how)
    given = table["y"].to_pylist()
    if kind in ("text", "dictionary"):
        given = ["yes" if y else "no" for y in given]
    lost = np.arange(len(given)) % 7 == 3
    labels = pa.array(given, mask=lost)
    if kind == "dictionary":  # one of its values is missing, and no code
        codes = [("yes", "no", None).index(y) for y in labels.to_pylist()]
        labels = pa.DictionaryArray.from_arrays(codes, pa.array(["yes", "no", None]))
    table = with_target(table, labels)
    return table, table.filter(pa.array(~lost))


@pytest.mark.parametrize("flags", ["", " --hash-bits 10 --standardize --weight code"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [("number", "t.csv"), ("text", "t.parquet"), ("dictionary", "t.feather")],
)
def test_the_store_is_that_of_the_other_rows(run, tmp_path, kind, name, flags):
    table, rest = with_gaps(kind, words=name != "t.csv")
    write(table, tmp_path / name)
    write(rest, tmp_path / f"rest-{name}")
    skip = f"--on-error skip --max-errors {N_LOST} --expect-rows 600"
    status, out, err = run(f"split {name} s --target y {skip}{flags}")
    assert status == 0, err
    assert f"{N_LOST} rows were skipped\n" in out
    place = {"t.csv": "", "t.parquet": ", row group 0", "t.feather": ", record batch 0"}[name]
    first = f"{name}{place}, row 4, column y: the target is missing"
    assert err == (
        f"warning: {N_LOST} rows were skipped; the first: {first}; all are listed in skipped.txt "
        "in the store\n"
    )
    listed = (tmp_path / "s/skipped.txt").read_text().splitlines()
    assert (len(listed), listed[0]) == (N_LOST, first)
    assert run(f"split rest-{name} r --target y{flags}")[0] == 0
    store, other = BlockStore.open("s"), BlockStore.open("r")
    assert files(store) == files(other)
    assert store.recipe == other.recipe
    (source,) = store.manifest.batches[0]["sources"]
    assert [source[key] for key in ("rows", "lines", "skipped")] == [514, 600, N_LOST]
    assert store.verify().unused_files == []


@pytest.mark.parametrize("flags", ["", " --standardize"])
@pytest.mark.parametrize("skip", ["", f" --on-error skip --max-errors {N_LOST - 1}"])
def test_rows_beyond_the_limit_are_refused(run, tmp_path, skip, flags):
    write(with_gaps()[0], tmp_path / "t.parquet")
    status, _, err = run(f"split t.parquet s --target y{skip}{flags}")
    assert status == 3
    assert "column y: the target is missing" in err
    assert "fix: `--on-error skip` leaves out up to --max-errors such rows" in err
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_added_rows_are_listed_by_batch(run, tmp_path):
    table, rest = with_gaps()
    write(rest, tmp_path / "rest.parquet")
    write(table, tmp_path / "t.parquet")
    assert run("split rest.parquet s --target y")[0] == 0
    before = sorted(path.name for path in (tmp_path / "s").rglob("*"))
    for flags in ("", " --on-error skip --max-errors 20"):
        assert run(f"add s t.parquet{flags}")[0] == 3
        assert sorted(path.name for path in (tmp_path / "s").rglob("*")) == before
    status, out, err = run("add s t.parquet --on-error skip")
    assert (status, "batch b2: 514 rows" in out) == (0, True)
    assert f"{N_LOST} rows were skipped" in err
    assert len((tmp_path / "s/skipped-b2.txt").read_text().splitlines()) == N_LOST
    assert f"{N_LOST} rows were skipped" in BlockStore.open("s").summary()


def test_a_file_without_any_target_among_others(run, tmp_path):
    table, rest = with_gaps()
    none = with_target(table, pa.nulls(600, pa.int64()))
    for name, part in (("a", none), ("b", rest), ("c", none)):
        (tmp_path / "in").mkdir(exist_ok=True)
        write(part, tmp_path / "in" / f"{name}.parquet")
    assert run("split in s --target y --on-error skip --max-errors 1200")[0] == 0
    sources = BlockStore.open("s").manifest.batches[0]["sources"]
    assert [(s["rows"], s["skipped"]) for s in sources] == [(0, 600), (514, 0), (0, 600)]
    for path in (tmp_path / "in").iterdir():
        write(none, path)
    status, _, err = run("split in n --target y --on-error skip --max-errors 1800")
    assert (status, "no rows with a target, 1800 without" in err) == (3, True)
    assert run("train s m")[0] == 0
    status, _, err = run("train s other --eval in")
    assert (status, "in: has no rows to evaluate on" in err) == (3, True)


@pytest.mark.parametrize(
    ("value", "message"), [("nan", "line 7, column x: the value nan"), ("1e153", "")]
)
def test_what_is_wrong_is_found_next_to_rows_that_are_left_out(run, tmp_path, value, message):
    rows = ["1,0,2", "2,,2", "", "3,,2", "4,1,2", f"{value},1,2", *["5,0,2"] * 9]
    (tmp_path / "t.csv").write_text("x,y,z\n" + "\n".join(rows) + "\n")
    status, _, err = run("split t.csv s --target y --on-error skip --dtype float32")
    assert status == 3
    message = message or "t.csv, rows 1 to 14, of those with a target: row 2: its squares"
    assert message in err


def test_models_are_scored_on_the_rows_with_a_target(run, tmp_path):
    write(make_table(seed=1), tmp_path / "t.parquet")
    table, rest = with_gaps(seed=3)
    write(table, tmp_path / "held.csv")
    write(rest, tmp_path / "rest.csv")
    assert run("split t.parquet s --target y")[0] == 0
    found = []
    for name in ("held.csv", "rest.csv"):
        assert run(f"train s m -s 7 --eval {name} --log {name}.log --restart")[0] == 0
        lines = (tmp_path / f"{name}.log").read_text().splitlines()
        scores = [json.loads(line).get("accuracy") for line in lines]
        best = run(f"train s best -s 7 -c 0.001,0.1 --best-on {name} --restart")[1].splitlines()
        assert main(["report", "m", "--test", name, "-o", "page"]) == 0
        page = (tmp_path / "page").read_text().partition("On the rows of")[2]
        assert ("rows without a target" in page) == (name == "held.csv")
        assert "514" in page
        found.append((scores, [line for line in best if "Accuracy" in line]))
    assert any(found[0][0])
    assert "/514)" in found[0][1][0]
    assert found[0] == found[1]
