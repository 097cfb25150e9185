"""Tables at the command line: what is printed, and with which status."""

import json
import lzma
import subprocess
import sys

import numpy as np
import pytest

from blocklinear import cross_validate
from blocklinear.cli.main import main
from blocklinear.errors import UsageError
from blocklinear.model.linear import LinearModel
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
    assert "batch b1: 600 rows from a.parquet with weights from column code, " in run("info w")[1]
    (batch,) = json.loads(run("info w --json")[1])["batches"]
    assert [file["path"] for file in batch["weights"]] == ["column code"]


def test_boolean_classes_are_named_as_in_the_table(run, tmp_path):
    x = [0.5, -1.0, 2.0, -0.25] * 20
    write(pa.table({"x": x, "y": [value > 0 for value in x]}), tmp_path / "c.parquet")
    counted = "true (40 rows), false (40 rows)\n"
    for line in ("split c.parquet c --target y -q", "info c"):
        assert f"labels: {counted}" in run(line)[1]
    assert f"labels {counted}"[:-1] in run("remove c --list")[1]
    for name in ("true", "1"):
        assert run(f"train c m -s 7 --class-weight {name}=2 -q --restart")[0] == 0
    assert "classes          2: true false\n" in run("info m")[1]
    assert run("convert m w.json --to json")[0] == 0
    listed = json.loads((tmp_path / "w.json").read_text())
    assert (listed["classes"], listed["decisions"][0]["class"]) == (["true", "false"], "true")
    assert run("report m -o page.html --test c.parquet --positive false")[0] == 0
    assert "<td>true</td>" in (tmp_path / "page.html").read_text()
    out = run("cv c -c 1 -v 2 --positive false --predictions p -q --log log")[1]
    assert out.splitlines()[0] == "2-fold cross-validation of 80 rows; positive class false"
    assert set((tmp_path / "p").read_text().split()) == {"true", "false"}
    found = run("cv c -c 1 -v 2 --positive false -q --json")[1]
    assert json.loads(found)["positive"] == "false"
    assert '"label": "true"' in (tmp_path / "log").read_text()
    status, out, _ = run("predict c.parquet m o.csv --positive false --report -b 1")
    assert status == 0
    assert "(positive class false)" in out
    header, first = (tmp_path / "o.csv").read_text().splitlines()[:2]
    assert header == '"prediction","probability_true","probability_false"'
    assert first.startswith("true,")
    status, _, err = run("predict c.parquet m o.csv --positive false")
    assert status == 2
    assert "a positive class is used with --report\n  fix: leave out --positive" in err
    status, _, err = run("train c m --class-weight yes=2 -q")
    assert status == 2
    assert "no class is 'yes'\n  fix: write one of false, true" in err
    model = LinearModel.load("m")
    (weight,) = model.top_weights(label="true")
    assert model.top_weights(label=1.0) == [weight]
    assert model.top_weights(label="false") == [(weight[0], -weight[1])]
    for positive in ("false", 0):
        assert cross_validate("c", costs=[1.0], positive=positive).report.positive == 0.0
    with pytest.raises(UsageError, match="no class is 'no'\n  fix: name one of false, true"):
        cross_validate("c", costs=[1.0], positive="no")


@pytest.mark.parametrize("target", [[True, False] * 30, ["b", "a"] * 30])
def test_outliers_are_no_classes_of_the_target(run, tmp_path, target):
    table = pa.table({"x": [1.0 + k % 7 for k in range(60)], "y": target})
    write(table, tmp_path / "c.parquet")
    assert run("split c.parquet c --target y -q")[0] == 0
    assert run("train c m -q -s 21 -n 0.5")[0] == 0
    assert run("predict c.parquet m o.csv --decision -q")[0] == 0
    found = pa.csv.read_csv(tmp_path / "o.csv")
    signs = [1 if value > 0.0 else -1 for value in found["decision"].to_pylist()]
    assert found["prediction"].to_pylist() == signs
    assert len(set(signs)) == 2
    assert LinearModel.load("m").outcome_names == ["1", "-1"]


@pytest.mark.parametrize("first", [None, "a", "b"])
def test_outliers_are_counted_whatever_the_target(run, tmp_path, first):
    """Labels of text are neither 1 nor -1, wherever one is missing; and none are needed."""
    x = pa.array([1.0 + k % 7 for k in range(60)])
    table = pa.table({"x": x, "y": [first, None, *["b", "a"] * 29]})
    write(table, tmp_path / "c.parquet", rows_a_group=1)
    write(pa.table({"x": x}), tmp_path / "x.parquet")
    assert run("split c.parquet c --target y -q --on-error skip")[0] == 0
    assert run("train c m -q -s 21 -n 0.5")[0] == 0
    n_missing = table["y"].null_count
    status, out, _ = run("predict c.parquet m o.csv")
    assert (status, out.startswith("Outliers = ")) == (0, True)
    assert out.strip().endswith(f"/{60 - n_missing})")
    assert run("predict x.parquet m o.csv")[1].strip().endswith("/60)")
    n_outliers = json.loads(run("predict x.parquet m o.csv --json")[1])["outliers"]
    found = pa.csv.read_csv(tmp_path / "o.csv")["prediction"].to_pylist()
    assert found.count(-1) == n_outliers > 0


def test_columns_that_are_kept_stay_as_they_are(run, tmp_path):
    zips = ["00501", "10001"] * 30
    rows = [f"{k % 3},{zips[k]},{k % 2}" for k in range(60)]
    (tmp_path / "z.csv").write_text("x,zip,y\n" + "\n".join(rows) + "\n")
    assert run("split z.csv z --target y --categories zip -q")[0] == 0
    assert run("train z m -q")[0] == 0
    assert run("predict z.csv m o.parquet --keep zip -q")[0] == 0
    assert pa.parquet.read_table(tmp_path / "o.parquet")["zip"].to_pylist() == zips
    (tmp_path / "twice.csv").write_text("x,zip,y,e,e\n0,00501,1,2,3\n")
    status, _, err = run("predict twice.csv m o --keep e")
    assert (status, "twice.csv: 2 columns 'e', which --keep names" in err) == (3, True)


@pytest.mark.parametrize(("label", "name"), [("spam", "spam"), (True, "true")])
def test_one_class_is_named_as_in_the_table(run, tmp_path, label, name):
    write(pa.table({"x": [1.0, 2.0], "y": [label, label]}), tmp_path / "c.parquet")
    for line in ("split c.parquet c --target y", "train c m -q", "cv c -q"):
        assert f"all rows have the one label {name}" in run(line)[2]
    other = not label if name == "true" else "ham"
    write(pa.table({"x": [1.0, 2.0], "y": [other, other]}), tmp_path / "other.parquet")
    assert run("add c other.parquet --batch other")[0] == 0
    assert f"left have the one label {name}" in run("remove c --batch other")[2]


@pytest.mark.parametrize("solver", [7, 3])
def test_held_out_tables_are_scored_as_predict_scores_them(run, tmp_path, solver):
    write(make_table(seed=5), tmp_path / "held.parquet", rows_a_group=64)
    line = f"train s m -s {solver} --eval held.parquet --log run.jsonl --memory 512M -q"
    assert run(line)[0] == 0
    records = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    told = [record["accuracy"] for record in records if "accuracy" in record]
    found = json.loads(run("predict held.parquet m out.csv --json --memory 512M")[1])
    assert told[-1] == found["accuracy"]
    assert found["rows"] == 600


@pytest.mark.parametrize("place", ["held", "held/part-*.csv"])
def test_the_best_model_on_held_out_tables(run, tmp_path, place):
    (tmp_path / "held").mkdir()
    for k in range(2):
        write(make_table(seed=k), tmp_path / "held" / f"part-{k}.csv")
    status, out, _ = run(f"train s best -s 7 -c 0.0001,0.1 --best-on {place} --memory 512M -q")
    assert status == 0
    scores = [line for line in out.splitlines() if "Accuracy" in line]
    found = json.loads(run(f"predict {place} best out.csv --json --memory 512M")[1])
    assert len(scores) == 2
    assert max(scores).endswith(f"({round(1200 * found['accuracy'])}/1200)")


@pytest.mark.parametrize("flags", ["--eval held.csv", "-c 0.1,1 --best-on held.csv"])
def test_held_out_tables_have_the_columns_of_the_recipe(run, tmp_path, flags):
    write(make_table().drop(["y", "city"]), tmp_path / "held.csv")
    status, _, err = run(f"train s m {flags} -q --memory 512M")
    assert status == 3
    for name in ("city", "y"):
        assert f"held.csv: no column '{name}'" in err
    assert not (tmp_path / "m").exists()


def test_the_budget_named_to_predict_a_table_is_enough(run):
    assert run("train s m -q")[0] == 0
    status, _, err = run("predict b.csv m out --memory 208M")
    assert (status, "tables at least 128M" in err) == (7, True)
    named = err.partition("give it --memory ")[2].partition(" ")[0]
    assert run(f"predict b.csv m out --memory {named}")[0] == 0


def test_held_out_tables_take_memory_next_to_training(run):
    status, _, err = run("train s m --eval b.csv -q --memory 207M")
    assert status == 7
    assert "tables cannot be read within 207M" in err
    status, _, err = run("train s m --eval b.csv -q --memory 208M")
    assert (status, "held-out rows, while they are read" in err) == (7, True)
    named = err.partition("give --memory ")[2].partition(" ")[0]
    assert run(f"train s m --eval b.csv -q --memory {named} --max-outer 1")[0] in (0, 5)


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


def test_classes_are_named_as_in_the_table(run, tmp_path):
    names = pa.array(["yes" if k % 3 else "no" for k in range(600)])
    table = make_table()
    write(table.set_column(table.schema.names.index("y"), "y", names), tmp_path / "named.parquet")
    assert run("split named.parquet n --target y -q --memory 256M")[0] == 0
    line = "train n m --restart -q --memory 256M --format liblinear --class-weight"
    models = []
    for weight in ("no=3", "0=3"):
        assert run(f"{line} {weight}")[0] == 0
        models.append((tmp_path / "m").read_bytes())
    assert models[0] == models[1]
    for weight, said in (
        ("nay=3", "no class is 'nay'\n  fix: write one of no, yes"),
        ("no=0", "weight of class no is 0, but must be finite and above 0"),
        ("no=x", "class weight 'no=x' is not LABEL=W"),
    ):
        status, _, err = run(f"{line} {weight}")
        assert (status, said in err) == (2, True), err
    assert run("train n m -s 7 --restart -q --memory 256M")[0] == 0
    for line in (
        "cv n -v 2 -c 1 -q --json --memory 256M",
        "predict named.parquet m out.csv --report --json --memory 256M",
    ):
        found = [
            json.loads(run(f"{line} --positive {name}")[1])["positive"] for name in ("no", "yes")
        ]
        assert found == ["no", "yes"]
        (tmp_path / "out.csv").unlink(missing_ok=True)
    assert run("cv n -v 2 -c 1 -q --predictions p --memory 256M")[0] == 0
    assert set((tmp_path / "p").read_text().split()) <= {"no", "yes"}
    assert run("report m -o page.html --test named.parquet --positive no")[0] == 0
    assert run("report m -o other.html --test named.parquet --positive nay")[0] == 2


def test_values_that_the_model_does_not_know_are_left_out_or_refused(run, tmp_path):
    assert run("train s m -s 7 -q --memory 256M")[0] == 0
    table = make_table(seed=3).slice(0, 20)
    cities = pa.array(["Atlantis"] * table.num_rows)
    write(table.set_column(table.schema.names.index("city"), "city", cities), tmp_path / "c.csv")
    status, _, err = run("predict c.csv m out.csv --memory 256M")
    assert status == 0
    assert "values that the model does not know, left out: city 20" in err
    (tmp_path / "out.csv").unlink()
    status, _, err = run("predict c.csv m out.csv --strict --memory 256M")
    assert status == 3
    assert "has values that the model does not know: city 20" in err
    assert not (tmp_path / "out.csv").exists()
    assert run("predict b.csv m out.csv --strict --memory 256M")[0] == 0


@pytest.mark.parametrize("kind", ["number", "text", "dictionary", "regression"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_rows_without_a_target_are_predicted_and_not_scored(run, tmp_path, kind, suffix):
    table, solver = make_table(), 12 if kind == "regression" else 1
    labels = table["y"].combine_chunks()
    if kind in ("text", "dictionary"):
        labels = pa.array(["yes" if y else "no" for y in labels.to_pylist()])
    elif kind == "regression":
        labels = pa.array([7.5 + y for y in labels.to_pylist()])
    if kind == "dictionary":
        labels = labels.dictionary_encode()
    at = table.schema.names.index("y")
    write(table.set_column(at, "y", labels), tmp_path / "known.parquet")
    assert run("split known.parquet k --target y -q --memory 256M")[0] == 0
    assert run(f"train k m -s {solver} -q --memory 256M")[0] == 0
    some = np.arange(table.num_rows) % 3 == 0
    known = table.set_column(at, "y", labels).filter(pa.array(~some))
    if suffix == "csv" and kind == "dictionary":  # which CSV has not
        labels = labels.dictionary_decode()
    for name, gone in (("some", some), ("none", some | True)):
        left = [None if lost else y for lost, y in zip(gone, labels.to_pylist(), strict=True)]
        column = pa.array(left, labels.type)
        write(table.set_column(at, "y", column), tmp_path / f"{name}.{suffix}")
    write(known, tmp_path / "rest.parquet")
    report = "" if kind == "regression" else "--report"
    expected = json.loads(run(f"predict rest.parquet m rest.csv --json {report} --memory 256M")[1])
    status, out, err = run(f"predict some.{suffix} m some-out.csv --json {report} --memory 256M")
    assert status == 0, err
    assert "200 rows have no target, and no part in the score" in err
    found = json.loads(out)
    assert (found.pop("rows"), found.pop("rows_without_target")) == (600, 200)
    assert expected.pop("rows") == 400
    assert found.keys() == expected.keys()
    for fact, value in found.items():
        assert value == (pytest.approx(expected[fact]) if kind == "regression" else expected[fact])
    status, out, err = run(f"predict none.{suffix} m none-out.csv {report} --memory 256M")
    assert (status, out) == (0, "600 rows\n"), err
    assert run("predict known.parquet m all.csv -q --memory 256M")[0] == 0
    results = [(tmp_path / f"{name}.csv").read_text() for name in ("some-out", "none-out", "all")]
    assert results[0] == results[1] == results[2]


def test_a_table_without_weights_is_scored_by_a_recipe_with_weights(run, tmp_path):
    assert run("split a.parquet w --target y --weight code -q --memory 256M")[0] == 0
    write(make_table(seed=5).drop(["code"]), tmp_path / "held.parquet")
    assert run("train w m -s 7 --eval held.parquet --log run.jsonl --memory 512M -q")[0] == 0
    status, out, _ = run("predict held.parquet m out.csv --json --memory 512M")
    assert status == 0
    assert json.loads(out)["accuracy"] > 0.5


def test_tables_are_taken_in_without_pandas(run, tmp_path):
    table = make_table(words=True)
    assert all(table[name].null_count for name in ("age", "city", "tags"))
    write(table, tmp_path / "words.parquet")
    flags = "--target y --interactions city*age --standardize --memory 256M -q"
    for more in ("", " --hash-bits 10"):
        line = f"split words.parquet t {flags}{more} --force"
        code = (
            "import sys; from blocklinear.cli.main import main; status = main(sys.argv[1:]); "
            "sys.exit(status or 'pandas' in sys.modules)"
        )
        if not more:
            line = line.replace("--interactions city*age ", "")
        subprocess.run([sys.executable, "-c", code, *line.split()], check=True)


def test_what_is_for_text_is_refused_of_tables(run):
    assert run("train s m -q --gap 0.1")[0] == 0
    for option in (
        "--expect-sha256 " + 64 * "0", "--max-decompressed 1", "--max-window 1M",
        "--max-line-bytes 1M", "--require-final-newline", "--ignore-qid", "--unsorted sort",
        "--duplicates sum",
    ):  # fmt: skip
        name = option.partition(" ")[0]
        for command in ("predict b.csv m out", "add s b.csv", "split a.parquet n --target y"):
            status, _, err = run(f"{command} {option}")
            assert (status, err) == (2, f"blocklinear: {name} is for text\n  fix: leave it out\n")
    refusal = "blocklinear: --index-base is for text\n  fix: leave it out\n"
    for command in ("split a.parquet n --target y", "train s n --eval b.csv", "cv s"):
        for base in (0, 1, "auto"):
            status, _, err = run(f"{command} --index-base {base}")
            assert (status, err) == (2, refusal)
    assert run("report m -o page --test b.csv --unsorted sort")[0] == 2


@pytest.mark.parametrize("option", ["--columns", "--drop", "--categories", "--keep"])
def test_an_option_that_names_no_column(run, capsys, option):
    command = "predict b.csv m o" if option == "--keep" else "split a.parquet n --target y"
    with pytest.raises(SystemExit, match="2"):
        run(f"{command} {option} ,")
    assert f"argument {option}: ',' names no column" in capsys.readouterr().err


def test_names_with_commas_stars_and_quotes(run, tmp_path):
    x = [0.5, -1.0, 2.0, -0.25] * 20
    names = {"a,b": x, "c*d": x, 'e"f': x, "g": x, "y": [value > 0 for value in x]}
    write(pa.table(names), tmp_path / "c.parquet")
    columns = '"a,b",c*d,e"f'
    crosses = '"a,b*e""f","""c*d""*a,b"'
    options = f"--columns {columns} --interactions {crosses} --hash-bits 8"
    assert run(f"split c.parquet c --target y {options}")[0] == 0
    lines = run("info c")[1].splitlines()
    assert '3 columns of kind number: a,b, c*d, e"f' in lines
    assert 'crosses: a,b*e"f, c*d*a,b' in lines
    assert run("train c m -q")[0] == 0
    assert run('predict c.parquet m o.parquet -q --keep "a,b",g')[0] == 0
    assert pa.parquet.read_table(tmp_path / "o.parquet").column_names == ["a,b", "g", "prediction"]


def test_names_in_quotes_that_do_not_end(run, capsys):
    with pytest.raises(SystemExit, match="2"):
        run('split a.parquet n --target y --columns "age,city')
    assert "argument --columns: '\"age,city' is no line of CSV" in capsys.readouterr().err
    for cross in ("age", "age*", "age*city*code", '"""age*city"'):
        status, _, err = run(f"split a.parquet n --target y --hash-bits 8 --interactions {cross}")
        assert (status, err.count("is not A*B")) == (2, 1)


def test_predict_counts_the_rows_that_are_expected(run, tmp_path):
    assert run("train s m -q --gap 0.1")[0] == 0
    status, _, err = run("predict b.csv m out --expect-rows 101")
    assert status == 3
    assert err.startswith("blocklinear: 100 rows, not the 101 expected\n  fix: ")
    assert not (tmp_path / "out").exists()
    header = (tmp_path / "b.csv").read_text().partition("\n")[0]
    (tmp_path / "none.csv").write_text(f"{header}\n")
    status, out, err = run("predict none.csv m out --decision --keep age")
    assert (status, "no rows" in out, "none.csv: no rows" in err) == (0, True, True)
    assert (tmp_path / "out").read_text() == '"age","prediction","decision"\n'
    assert run("predict none.csv m none.parquet --report -q")[0] == 0
    assert pa.parquet.read_table(tmp_path / "none.parquet").column_names == ["prediction"]
    assert run("predict none.csv m out --expect-rows 1")[0] == 3
    assert run("predict b.csv m out --expect-rows 100")[0] == 0


def test_kept_columns_that_cannot_be_written(run, tmp_path):
    x = [0.5, -1.0, 2.0, -0.25] * 20
    listed, y = [["a"]] * 80, [value > 0 for value in x]
    table = pa.table({"x": x, "l": listed, "prediction": x, "decision": x, "y": y})
    write(table, tmp_path / "c.parquet")
    assert run("split c.parquet c --target y --columns x -q")[0] == 0
    assert run("train c m -q")[0] == 0
    for kept, named in (("l", "o.csv"), ("prediction", "o.parquet"), ("decision", "o.arrow")):
        status, _, err = run(f"predict c.parquet m {named} --decision --keep {kept}")
        assert (status, err.count("\n")) == (2, 2)
        assert err.startswith("blocklinear: ")
        assert "  fix: leave it out of --keep" in err
        assert not (tmp_path / named).exists()
    assert run("predict c.parquet m o.parquet --keep l,decision")[0] == 0
    read = pa.parquet.read_table(tmp_path / "o.parquet")
    assert read.column_names == ["l", "decision", "prediction"]
    assert read["decision"].to_pylist() == x


def test_tables_that_pyarrow_takes_for_text(run, tmp_path):
    with lzma.open(tmp_path / "t.csv.xz", "wb") as stream:
        stream.write(b"x,y\n1,0\n2,1\n")
    status, _, err = run("split t.csv.xz t --target y")
    assert (status, err) == (
        3, "blocklinear: t.csv.xz: is compressed by xz, which tables are not read from\n"
        "  fix: decompress it, or compress it by gzip or zstd\n",
    )  # fmt: skip


@pytest.mark.parametrize("first", ["", ",1,a,0\n"], ids=["no rows", "no values"])
def test_a_column_to_keep_that_has_no_values_in_the_first_file(tmp_path, run, first):
    header, rows = "id,x,c,y\n", "7,1.5,a,0\n8,2.5,b,1\n"
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a.csv").write_text(header + first)
    (tmp_path / "f" / "b.csv").write_text(header + rows)
    assert run("split f/b.csv kept --target y --drop id -q")[0] == 0
    assert run("train kept m -q")[0] == 0
    assert run("predict f m o.parquet --keep id -q")[0] == 0
    kept = pa.parquet.read_table("o.parquet")["id"]
    assert str(kept.type) == "int64"
    assert kept.to_pylist() == [None] * bool(first) + [7, 8]
