"""Folders of tables whose names are a column, as Hive and Spark write them."""

import os

import pytest

from blocklinear.errors import InputError
from blocklinear.model.linear import LinearModel
from blocklinear.options import TrainOptions
from blocklinear.training.loop import train

pa = pytest.importorskip("pyarrow")

from blocklinear.tables.infer import TableOptions  # noqa: E402
from blocklinear.tables.predict import predict_tables  # noqa: E402

from .build import make_table, write  # noqa: E402
from .test_split import FORMATS, OPTIONS, files, make_store, split_tables  # noqa: E402

HIVE_MISSING = "__HIVE_DEFAULT_PARTITION__"
DAYS = ("2026-01-01", None, "a b/c")


def make_folders(folder, table, suffix=".parquet"):
    """Write a third of the table to a folder for each day."""
    names = ("day=2026-01-01", "day=__HIVE_DEFAULT_PARTITION__", "day=a%20b%2Fc")
    for k, name in enumerate(names):
        (folder / "eu=yes" / name).mkdir(parents=True)
        write(table.slice(200 * k, 200), folder / "eu=yes" / name / f"part{suffix}")
    (folder / "_SUCCESS").touch()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".feather"])
@pytest.mark.parametrize("hash_bits", [0, 10])
def test_names_of_folders_are_columns(tmp_path, suffix, hash_bits):
    table = make_table().drop_columns(["day"])
    make_folders(tmp_path / "parts", table, suffix)
    how = TableOptions("y", hash_bits=hash_bits)
    store = split_tables([str(tmp_path / "parts")], tmp_path / "store", how, OPTIONS)
    days = [day for day in DAYS for _ in range(200)]
    whole = table.append_column("eu", pa.array(["yes"] * 600))
    whole = make_store(tmp_path, whole.append_column("day", pa.array(days)), hash_bits=hash_bits)
    assert store.recipe == whole.recipe
    assert files(store) == files(whole)
    model = train(store, TrainOptions(solver=1, gap=1e-2))
    for name, path in (("a.csv", tmp_path / "parts"), ("b.csv", tmp_path / "t.parquet")):
        predict_tables(model, [str(path)], tmp_path / name, decision=True)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.parametrize("out", ["o.parquet", "o.arrow", "o.csv"])
def test_categories_are_kept_as_their_values(tmp_path, out):
    """A file of Arrow has one dictionary of a column, and one of Parquet has none with null."""
    values = {"first": ["a", "b", None], "second": ["c", "a", "c"], HIVE_MISSING: ["d", None, "d"]}
    for key, cities in values.items():
        (tmp_path / "t" / f"key={key}").mkdir(parents=True)
        of = pa.dictionary(pa.int8() if key == "first" else pa.int16(), pa.string())
        city = pa.array(cities, of)
        table = pa.table({"x": [1.0, 2.0, 3.0], "city": city, "y": [0, 1, 0]})
        write(table, tmp_path / "t" / f"key={key}" / "f.feather")
    store = split_tables([str(tmp_path / "t")], tmp_path / "store", TableOptions("y"), OPTIONS)
    model = train(store, TrainOptions(memory_bytes=512 << 20))
    predict_tables(model, [str(tmp_path / "t")], tmp_path / out, keep=["key", "city"])
    if out == "o.csv":
        how = pa.csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
        kept = pa.csv.read_csv(tmp_path / out, convert_options=how)
    else:
        kept = {"o.arrow": pa.feather.read_table, "o.parquet": pa.parquet.read_table}[out](
            tmp_path / out
        )
    keys = sorted(values)
    assert kept["key"].to_pylist() == [
        None if k == HIVE_MISSING else k for k in keys for _ in range(3)
    ]
    assert kept["city"].to_pylist() == [city for k in keys for city in values[k]]


def test_the_target_may_be_the_name_of_a_folder(tmp_path):
    for label in ("no", "yes"):
        (tmp_path / f"parts/y={label}").mkdir(parents=True)
        write(pa.table({"x": [1.0 + (label == "no")] * 3}), tmp_path / f"parts/y={label}/p.csv")
    store = split_tables([str(tmp_path / "parts")], tmp_path / "s", TableOptions("y"), OPTIONS)
    train(store, TrainOptions(solver=1)).save(tmp_path / "model")
    assert set(LinearModel.load(tmp_path / "model").classes.values()) == {"no", "yes"}


def test_a_column_twice(tmp_path):
    for name in ("x=1", "y=1/y=2"):
        (tmp_path / name / name).mkdir(parents=True)
        write(pa.table({"x": [1.0], "y": [1]}), tmp_path / name / name / "p.parquet")
    with pytest.raises(InputError, match="column x is in the file and in the names of its folders"):
        split_tables([str(tmp_path / "x=1")], tmp_path / "s", TableOptions("y"), OPTIONS)
    with pytest.raises(InputError, match="two folders are named y="):
        split_tables([str(tmp_path / "y=1")], tmp_path / "s", TableOptions("y"), OPTIONS)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("name", FORMATS)
def test_names_that_are_not_utf_8(tmp_path, name):
    table = make_table(words=not name.startswith("t.csv"))
    usual = make_store(tmp_path, table, name)
    odd = tmp_path / os.fsdecode(b"t\xff\n")
    odd.mkdir()
    (tmp_path / name).rename(odd / os.fsdecode(b"\xfe" + name.encode()))
    store = split_tables([str(odd)], odd / "store", TableOptions("y"), OPTIONS)
    assert files(store) == files(usual)
    model = train(store, TrainOptions(max_outer=1))
    (path,) = (path for path in odd.iterdir() if path.is_file())
    assert predict_tables(model, [str(path)], tmp_path / "out.csv").rows == len(table)


def test_a_folder_that_is_a_column_has_a_name_of_utf_8(tmp_path):
    folder = tmp_path / "t" / os.fsdecode(b"shop=\xff")
    folder.mkdir(parents=True)
    write(make_table(), tmp_path / "t.parquet").rename(folder / "t.parquet")
    with pytest.raises(InputError, match="the name of a folder is not UTF-8, and is a column"):
        split_tables([str(tmp_path / "t")], tmp_path / "store", TableOptions("y"), OPTIONS)
