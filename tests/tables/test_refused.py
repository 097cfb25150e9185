"""Tables that are refused: the message says where, and nothing is left."""

import gc
import os
import re

import numpy as np
import pytest

from blocklinear.errors import InputError, StorageError, UsageError
from blocklinear.options import TrainOptions
from blocklinear.training.loop import train

pa = pytest.importorskip("pyarrow")

from blocklinear.tables import sources  # noqa: E402
from blocklinear.tables.infer import TableOptions  # noqa: E402
from blocklinear.tables.pages import UnknownPageError, page_bytes  # noqa: E402
from blocklinear.tables.predict import predict_tables  # noqa: E402
from blocklinear.tables.sources import Found, find_files, open_source  # noqa: E402
from blocklinear.tables.split import add_tables  # noqa: E402

from .build import write  # noqa: E402
from .test_split import make_store, split_tables  # noqa: E402

N = 1000
X, Y = np.arange(N) * 1.0, np.arange(N) % 2
LONG = "a" * 200_000


def with_value(value, kind=None):
    values = [1] * N if kind is not None else [1.0] * N
    values[777] = value
    return pa.array(values, kind)


TABLES = {
    "row group 0, row 4, column y: the target is missing; it is in 10 of the 100 rows": {
        "x": X, "y": pa.array([None if k % 10 == 3 else k % 2 for k in range(N)]),
    },
    "'s' of type struct<a: int64>, 'l' of type list<element: double>": {
        "s": pa.array([{"a": 1}] * N), "l": pa.array([[1.0]] * N), "y": Y,
    },
    "row group 7, row 78, column x: the value nan is not finite": {
        "x": with_value(float("nan")), "y": Y,
    },
    "row group 7, row 78, column x: the value inf is not finite": {
        "x": with_value(float("inf")), "y": Y,
    },
    "row group 7, row 78, column x: 9007199254740993 is beyond 2\\*\\*53": {
        "x": with_value(2**53 + 1, pa.int64()), "y": Y,
    },
    "row group 7, row 78, column c: a value of 1048576 bytes": {
        "c": pa.array(["a"] * 777 + ["b" * (1 << 20)] + ["c"] * 222), "y": Y,
    },
    "no rows": {"x": pa.array([], pa.float64()), "y": pa.array([], pa.int64())},
}  # fmt: skip


@pytest.mark.parametrize("hash_bits", [0, 10])
@pytest.mark.parametrize("message", TABLES)
def test_a_wrong_table(tmp_path, message, hash_bits):
    with pytest.raises(InputError, match=message):
        make_store(tmp_path, pa.table(TABLES[message]), hash_bits=hash_bits)
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_nan_is_told_from_what_is_missing(tmp_path):
    table = pa.table({"x": [1.0, float("nan")], "y": [0, 1]})
    with pytest.raises(InputError, match="fix: write what is missing as null, as polars"):
        make_store(tmp_path, table)
    with pytest.raises(InputError, match="fix: leave out what is missing: null"):
        make_store(tmp_path, pa.table({"x": [1.0, float("-inf")], "y": [0, 1]}))


LINES = {
    "line 502: .*Expected 2 columns, got 3": "1,2,3",
    "line 502: .*invalid value 'abc'": "abc,1",
    "line 502: column x is not UTF-8": "\udcff,1",
    "line 502: .*Expected 2 columns, got 1": '"1,1',
    "line 502, column x: an integer beyond 2": "9007199254740993,1",
    "line 502, column x: the value nan": "nan,1",
    "line 502, column y: the target is missing": "5,",
}


@pytest.mark.parametrize("message", LINES)
def test_a_wrong_line_of_csv(tmp_path, message):
    rows = [f"{k},{k % 2}" for k in range(N)]
    if "invalid" in message:  # what the first block holds says of what type a column is
        rows = [*rows[:500], LINES[message], *rows]
        first = tmp_path / "a.csv"
        first.write_text("x,y\n1,0\n2,1\n")
        names = [str(first), str(tmp_path / "t.csv")]
        message = "column 'x' is of type string, not number"
    else:
        rows[500] = LINES[message]
        names = [str(tmp_path / "t.csv")]
    text = "x,y\n" + "\n".join(rows) + "\n"
    (tmp_path / "t.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=message):
        split_tables(names, tmp_path / "store", TableOptions("y"))
    assert not (tmp_path / "store").exists()


def test_a_table_with_other_columns_is_refused_with_all_differences(tmp_path):
    good = pa.table({"x": X, "c": ["a"] * N, "y": Y})
    store = make_store(tmp_path, good)
    lacking = write(good.drop_columns(["c"]), tmp_path / "lacking.parquet")
    other = write(good.set_column(0, "x", pa.array(["q"] * N)), tmp_path / "other.feather")
    with pytest.raises(InputError) as caught:
        add_tables(store.folder, [str(lacking), str(other)])
    assert "lacking.parquet: no column 'c', of kind text" in caught.value.what
    assert "other.feather: column 'x' is of type string, not number" in caught.value.what


@pytest.mark.parametrize("content", [b"", b"x,y\n", b"PAR1 and no more"])
def test_an_empty_or_cut_file(tmp_path, content):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(InputError, match=str(tmp_path / "t")):
        split_tables([str(tmp_path / "t")], tmp_path / "store", TableOptions("y"))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16(tmp_path, encoding):
    (tmp_path / "t.csv").write_text("\ufeffx,y\n1.5,0\n2.5,1\n", encoding)
    with pytest.raises(InputError, match=r"t.csv: is UTF-16\n  fix: convert it, as by iconv"):
        split_tables([str(tmp_path / "t.csv")], tmp_path / "store", TableOptions("y"))


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.arrows"])
@pytest.mark.parametrize("compression", ["gzip", "bz2", "zstd"])
def test_a_file_of_columns_that_is_compressed_as_a_whole(tmp_path, name, compression):
    content = write(pa.table({"x": X, "y": Y}), tmp_path / name).read_bytes()
    path = tmp_path / f"{name}.compressed"
    with pa.output_stream(path, compression=compression) as stream:
        stream.write(content)
    with pytest.raises(InputError, match="holds a file that is compressed, but no text\n  fix: de"):
        split_tables([str(path)], tmp_path / "store", TableOptions("y"))


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"PK\x03\x04\x14\0\0\0", "a zip archive, as .xlsx is"), (b"Obj\x01\x04\x14", "Avro")],
)
def test_files_that_are_no_text(tmp_path, content, what):
    (tmp_path / "t").write_bytes(content + bytes(range(256)))
    with pytest.raises(InputError, match=f"t: is {what}, which tables are not read from\n  fix: "):
        split_tables([str(tmp_path / "t")], tmp_path / "store", TableOptions("y"))


def test_a_column_without_a_name(tmp_path):
    """As pandas writes its index to CSV."""
    path = tmp_path / "t.csv"
    path.write_text(",x,y\n0,1.5,a\n1,2.5,b\n")
    with pytest.raises(InputError, match=r"t.csv: the name of column 1 is empty\n  fix: name it"):
        split_tables([str(path)], tmp_path / "store", TableOptions("y"))
    store = split_tables([str(path)], tmp_path / "store", TableOptions("y", columns=("x",)))
    assert store.manifest.n_rows == 2


@pytest.mark.parametrize("weight", [["a"] * N, [True] * N], ids=["text", "booleans"])
def test_a_weight_that_is_no_number(tmp_path, weight):
    path = write(pa.table({"x": X, "y": Y, "w": weight}), tmp_path / "t.parquet")
    with pytest.raises(
        InputError, match=r"t\.parquet: the weight 'w' is of type .*\n  fix: weights"
    ):
        split_tables([str(path)], tmp_path / "store", TableOptions("y", weight="w"))


@pytest.mark.parametrize(
    ("weight", "fix"),
    [([float("nan")] * N, "leave out rows"), ([2**60 + 1] * N, "write weights as float64")],
    ids=["nan", "integer"],
)
def test_advice_on_a_weight_can_be_followed(tmp_path, weight, fix):
    path = write(pa.table({"x": X, "y": Y, "w": weight}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=rf"t\.parquet.*, column w: .*\n  fix: {fix}"):
        split_tables([str(path)], tmp_path / "store", TableOptions("y", weight="w"))


def test_a_target_that_no_float64_is_equal_to(tmp_path):
    """It can neither be left out nor be a category."""
    path = write(pa.table({"x": X, "y": [2**60 + k % 2 for k in range(N)]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"column y: .* beyond 2\*\*53.*\n  fix: write classes as"):
        split_tables([str(path)], tmp_path / "store", TableOptions("y"))


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (TableOptions("x"), "round it, or write a letter before each if they are names$"),
        (TableOptions("y", weight="x"), "round it, or write a letter [^-]*$"),
        (TableOptions("y"), "round it, .* or split with --drop x .*, or with --categories x"),
    ],
    ids=["target", "weight", "feature"],
)
def test_advice_on_an_integer_of_csv_can_be_followed(tmp_path, options, fix):
    (tmp_path / "t.csv").write_text(f"x,y,a\n{2**60 + 1},1,0\n{2**60},2,1\n")
    with pytest.raises(InputError, match=rf"line 2, column x: an integer .*\n  fix: {fix}"):
        split_tables([str(tmp_path / "t.csv")], tmp_path / "s", options)


def test_names_of_columns_that_are_not_utf8(tmp_path):
    (tmp_path / "t.csv").write_bytes("prix,café,y\n1,2,0\n3,4,1\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"line 1: the name of a column is not UTF-8\n.*iconv"):
        split_tables([str(tmp_path / "t.csv")], tmp_path / "s", TableOptions("y"))


def test_a_value_that_is_no_number_after_the_first_block(tmp_path):
    rows = ["7,1,0", "8,2,1"] * 200_000
    rows[300_000] = "9,abc,1"
    (tmp_path / "t.csv").write_text("left,x,y\n" + "\n".join(rows) + "\n")
    for options, fix in (
        (TableOptions("y", drop=("left",)), r"or split with --drop x .*, or with --categories x"),
        (TableOptions("y", weight="x"), "correct it$"),
    ):
        message = rf"line 300002, column x: .*invalid value 'abc'\n  fix: .*{fix}"
        with pytest.raises(InputError, match=message):
            split_tables([str(tmp_path / "t.csv")], tmp_path / "s", options)
    options = TableOptions("y", drop=("left",), categories=("x",))
    assert split_tables([str(tmp_path / "t.csv")], tmp_path / "s", options).manifest.dimension == 3
    (tmp_path / "t.csv").write_text("x,y\n" + "2024-01-01,1\n" * 120_000 + "soon,0\n")
    with pytest.raises(InputError, match=r"fix: correct it, or split with --drop x to .*out$"):
        split_tables([str(tmp_path / "t.csv")], tmp_path / "new", TableOptions("y"))
    rows[300_000] = "9,3,1"
    rows = [f"{row},text" for row in rows]
    rows[300_000] += "\udcff"
    text = "left,x,y,c\n" + "\n".join(rows) + "\n"
    (tmp_path / "t.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match="line 300002: column c is not UTF-8"):
        split_tables([str(tmp_path / "t.csv")], tmp_path / "new", TableOptions("y"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y,t\n1,0,a\n\n\n2,1,b\n3,0,\n1e200,1,c\n", "line 7, column x: .* too large"),
        ('x,y,t\n1,0,"a\nb"\n2,,c\n', "line 4, column y: the target is missing"),
        ("x,y,t\n1,0," + LONG + "\n1e200,1,c\n", "line 3, column x: .* too large"),
        ("x,y,t\n" + "7,1,0\n" * 400_000 + "8,1," + LONG + "\nu,1,c\n", "line 400003, column x"),
        ("x,y,t\n9007199254740993,0,a\n", "line 2, column x: an integer beyond"),
    ],
)
def test_lines_of_csv_are_those_of_the_file(tmp_path, text, message):
    """Empty lines are no rows, and a value may have several lines, or be long."""
    (tmp_path / "t.csv").write_text(text)
    options = TableOptions("y", drop=("t",))
    with pytest.raises(InputError, match=message):
        split_tables([str(tmp_path / "t.csv")], tmp_path / "new", options)


@pytest.mark.parametrize(
    ("name", "text", "separators"),
    [
        ("t.csv", "city;price;y\nBern;1,5;0\n", "commas"),
        ("t.tsv", "city\tprice\ty\nBern\t1\t0\nBasel, north\t\t2\t1\n", "tabs"),
    ],
)
def test_advice_on_rows_of_other_lengths_names_what_separates_columns(
    tmp_path, name, text, separators
):
    (tmp_path / name).write_text(text)
    advice = f"separate columns by {separators}, and write text with {separators} or"
    with pytest.raises(InputError, match=rf"Expected \d columns, got \d(.|\n)*{advice}"):
        split_tables([str(tmp_path / name)], tmp_path / "new", TableOptions("y"))


def test_a_carriage_return_without_quotes_ends_a_line_of_csv(tmp_path):
    """As `to_csv` of pandas writes text with one."""
    (tmp_path / "t.csv").write_bytes(b"y,t,x\n1,a,2\n0,b\rc,3\n")
    with pytest.raises(InputError, match=r"line 3: .*Expected 3 columns, got 2(.|\n)*carriage"):
        split_tables([str(tmp_path / "t.csv")], tmp_path / "new", TableOptions("y"))


def test_a_prediction_that_fails_leaves_nothing(tmp_path, capfd):
    store = make_store(tmp_path, pa.table({"x": X, "y": Y}))
    model = train(store, TrainOptions(solver=1, gap=0.1, max_outer=2))
    path = write(pa.table({"x": with_value(float("nan"))}), tmp_path / "nan.parquet")
    for name in ("out.parquet", "out.csv", "out.feather"):
        with pytest.raises(InputError, match="row group 7, row 78, column x"):
            predict_tables(model, [str(path)], tmp_path / name)
        gc.collect()
        assert not (tmp_path / name).exists()
    assert "Exception ignored" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (None, "b.parquet: no column 'name', which --keep names"),
        (["7"] * 150 + ["no number"] * 50, "b.parquet, row group 1, row 1 .*, column name: its "),
        ([7] * 200, None),
    ],
)
def test_files_whose_kept_columns_differ(tmp_path, kept, message):
    rows = {"x": X[:200], "y": Y[:200]}
    store = make_store(tmp_path, pa.table(rows))
    model = train(store, TrainOptions(solver=1, gap=0.1, max_outer=2))
    first = write(
        pa.table({**rows, "name": pa.array(range(200), pa.int32())}), tmp_path / "a.parquet"
    )
    second = rows if kept is None else {**rows, "name": kept}
    second = write(pa.table(second), tmp_path / "b.parquet")
    out = tmp_path / "out.parquet"
    if message is not None:
        with pytest.raises(InputError, match=message):
            predict_tables(model, [str(first), str(second)], out, keep=("name",))
        assert not out.exists()
        return
    predict_tables(model, [str(first), str(second)], out, keep=("name",))
    table = pa.parquet.read_table(out)
    assert table["name"].to_pylist() == [*range(200), *kept]


@pytest.mark.parametrize("name", ["prediction", "decision", "probability_1"])
def test_kept_columns_are_none_of_the_results(tmp_path, name):
    table = pa.table({"x": X, "y": Y, name: ["mine"] * N})
    model = train(make_store(tmp_path, table, drop=(name,)), TrainOptions(solver=7, gap=0.1))
    path, how = str(tmp_path / "t.parquet"), {"keep": (name,)}
    with pytest.raises(UsageError, match=f"--keep names {name}, which is also a column of the res"):
        predict_tables(model, [path], tmp_path / "out.csv", decision=True, probability=True, **how)
    assert not (tmp_path / "out.csv").exists()
    if name != "prediction":
        assert predict_tables(model, [path], tmp_path / "out.csv", **how).rows == N


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": "y"}, "--weight names 'y', which is the target"),
        ({"columns": ("x", "y")}, "--columns names 'y', which is the target"),
        ({"columns": ("x", "c"), "drop": ("c",)}, "--columns names 'c', which is left out"),
        ({"drop": ("x",), "categories": ("c", "x")}, "--categories names 'x', which is left out"),
        ({"columns": ("c",), "categories": ("x",)}, "--categories names 'x', which is left out"),
        ({"weight": "x", "categories": ("x",)}, "--categories names 'x', which is that of the"),
        ({"categories": ("w",)}, "--categories names 'w', which is of type list<"),
        (
            {"categories": ("f",)},
            "--categories names 'f', which is of type float: categories are integers, text or b",
        ),
        (
            {"drop": ("x",), "interactions": (("x", "c"),), "hash_bits": 4},
            "--interactions names 'x', which is left out",
        ),
        ({"interactions": (("x", "c"),)}, "crosses are hashed\n  fix: .* --hash-bits"),
        (
            {"interactions": (("x", "x"),), "hash_bits": 4},
            r"--interactions x\*x: a cross is of two",
        ),
        ({"interactions": (("x", "w"),), "hash_bits": 4}, r"--interactions x\*w: .* none of words"),
    ],
    ids=str,
)
def test_options_that_contradict_each_other(tmp_path, options, message):
    columns = {"x": X, "f": pa.array(X, pa.float32()), "c": ["a"] * N, "w": [["a"]] * N, "y": Y}
    table = pa.table(columns)
    with pytest.raises(UsageError, match=message):
        make_store(tmp_path, table, **options)


def test_a_column_that_is_named_twice_is_taken_once(tmp_path):
    store = make_store(tmp_path, pa.table({"x": X, "y": Y}), columns=("x", "x"))
    assert [column["name"] for column in store.recipe["columns"]] == ["x"]


def test_a_cross_that_is_named_twice_is_taken_once(tmp_path):
    table = pa.table({"x": X, "c": ["a"] * N, "d": ["b"] * N, "y": Y})
    twice = (("x", "c"), ("x", "d"), ("c", "x"), ("x", "c"))
    store = make_store(tmp_path, table, hash_bits=4, interactions=twice)
    assert store.recipe["interactions"] == [[0, 1], [0, 2]]


def test_labels_that_are_no_classes_have_rows_not_lines(tmp_path):
    store = make_store(tmp_path, pa.table({"x": X, "y": np.array(Y) + 0.5}))
    with pytest.raises(InputError, match=r"first in row 1 of .*t\.parquet"):
        train(store, TrainOptions(solver=1))


def test_long_text_is_refused_before_it_is_read(tmp_path):
    text = pa.array([f"{k:07} " * (1 << 15) for k in range(40)])
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"c": text, "y": [0, 1] * 20}), path, use_dictionary=False)
    message = "row group 0, column c: values of 26.... bytes on average, more than 65536"
    with pytest.raises(InputError, match=message):
        split_tables([str(path)], tmp_path / "store", TableOptions("y"))


def test_rows_of_longer_text_are_read_fewer_at_a_time(tmp_path):
    short, long = ["a"] * 3000, [f"{k:050} " * 100 for k in range(3000)]
    for name, text, most in (("short", short, 1000), ("long", long, 20)):
        path = write(pa.table({"c": text, "y": [0, 1] * 1500}), tmp_path / f"{name}.parquet", 3000)
        source = open_source(Found(str(path), {}), {})
        parts = [part.n_rows for part in source.read(["c", "y"], 1000)]
        assert sum(parts) == 3000
        assert most / 4 <= max(parts) <= most


def test_long_text_is_not_read_as_a_dictionary(tmp_path):
    text = [f"{k:07} " * 1000 for k in range(1000)]
    for values, kind in ((text, "string"), (text[:3] * 300, "dictionary<")):
        path = tmp_path / "t.parquet"
        table = pa.table({"c": values, "y": [k % 2 for k in range(len(values))]})
        pa.parquet.write_table(table, path, compression="zstd")
        part = next(open_source(Found(str(path), {}), {}).read(["c"], 10))
        assert str(part.columns["c"].type).startswith(kind)


def incompressible(n_bytes, seed=0):
    return (
        np.random.default_rng(seed).integers(33, 127, n_bytes).astype(np.uint8).tobytes().decode()
    )


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip", "lz4"])
def test_a_long_value_of_a_dictionary_is_refused_before_it_is_repeated(tmp_path, compression):
    text, path = ["a", incompressible(100_000)] * 500, tmp_path / "t.parquet"
    table = pa.table({"c": text, "y": [0, 1] * 500})
    pa.parquet.write_table(table, path, compression=compression)
    message = "row group 0, column c: a value of 100000 bytes, more than 65536"
    with pytest.raises(InputError, match=message):
        split_tables([str(path)], tmp_path / "store", TableOptions("y"))


def test_rows_are_read_as_many_at_a_time_as_long_values_of_a_dictionary_allow(tmp_path):
    text, path = [incompressible(60_000, k) for k in range(2)], tmp_path / "t.parquet"
    words = [["word"], ["word"]]
    table = pa.table({"c": text * 1500, "w": words * 1500, "y": [0, 1] * 1500})
    pa.parquet.write_table(table, path, row_group_size=1000)
    source = open_source(Found(str(path), {}), {})
    parts = [part.n_rows for part in source.read(["c", "w", "y"], 10_000)]
    assert sum(parts) == 3000
    assert max(parts) * 60_000 <= 10_000 * 3 * 32


@pytest.mark.parametrize("value", ["", "x" * 300])
def test_how_long_a_page_is_stands_in_its_header(tmp_path, value):
    path = tmp_path / "t.parquet"
    table = pa.table({"c": [value] * 500})
    pa.parquet.write_table(table, path, use_dictionary=False)
    chunk = pa.parquet.read_metadata(path).row_group(0).column(0)
    with open(path, "rb") as stream:
        n_bytes = page_bytes(stream, chunk.data_page_offset)
        with pytest.raises(UnknownPageError):
            page_bytes(stream, path.stat().st_size)
    assert 500 * (4 + len(value)) <= n_bytes < chunk.total_uncompressed_size


def test_a_dictionary_that_cannot_be_looked_into(tmp_path, monkeypatch):
    def fail(*_):
        raise UnknownPageError

    monkeypatch.setattr(sources, "read_dictionary", fail)
    text = [incompressible(600, k) for k in range(200)] * 5
    path = write(pa.table({"c": text, "y": [0, 1] * 500}), tmp_path / "t.parquet", 1000)
    parts = [part.n_rows for part in open_source(Found(str(path), {}), {}).read(["c"], 1000)]
    assert sum(parts) == 1000
    assert max(parts) == 1


@pytest.mark.parametrize("where", ["rows.csv", "."])
def test_a_pipe_is_no_table(tmp_path, where):
    os.mkfifo(tmp_path / "rows.csv")
    (file,) = find_files([str(tmp_path / where)])
    with pytest.raises(StorageError, match=r"rows\.csv: is not a regular file"):
        open_source(file, {})


@pytest.mark.parametrize("row", ['1,0,"' + "a" * 3_000_000 + '"', '1,0,"a'], ids=["long", "open"])
@pytest.mark.parametrize("n_before", [3, 200_000])
def test_a_row_of_csv_that_no_block_holds(tmp_path, row, n_before):
    text = "x,y,t\n" + "7,1,a\n" * n_before + row + "\n" + "8,1,b\n" * 500_000
    (tmp_path / "t.csv").write_text(text)
    message = rf"t.csv, line {n_before + 2}: a row of more than 1M, or a quotation mark that is not"
    with pytest.raises(InputError, match=message):
        split_tables([str(tmp_path / "t.csv")], tmp_path / "new", TableOptions("y", drop=("t",)))


@pytest.mark.parametrize("word", ["NA", "?"])
@pytest.mark.parametrize("column", ["x", "y"])
def test_numbers_but_for_a_word_that_stands_for_none(tmp_path, column, word):
    """They would be text, with a feature for each number."""
    rows = [{"x": str(k), "y": str(k % 2), "t": "NA" if k % 3 else "b"} for k in range(9)]
    rows[4][column] = word
    lines = ["x,y,t", *(",".join(row.values()) for row in rows)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    message = f"t.csv: column '{column}' has numbers, and '{re.escape(word)}'"
    with pytest.raises(InputError, match=message) as error:
        split_tables([str(path)], tmp_path / "store", TableOptions(target="y"))
    assert ("--drop" in error.value.fix) == (column == "x")  # which a target cannot be
    assert ("--on-error skip" in error.value.fix) == (column == "y")
    if column == "x":
        for option in ("categories", "drop"):
            how = TableOptions(target="y", **{option: ("x",)})
            split_tables([str(path)], tmp_path / option, how)
