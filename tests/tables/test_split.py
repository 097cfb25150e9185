"""Tables to stores, and from models back to tables."""

import hashlib
import re
from dataclasses import replace

import numpy as np
import pytest
import xxhash
from scipy.sparse import csr_array

from blocklinear.batches.writer import StoreWriter
from blocklinear.errors import InputError, MemoryBudgetError, MismatchError, UsageError
from blocklinear.events import SplitProgress, Warned
from blocklinear.ingest.split import split
from blocklinear.memory import PROCESS_BYTES
from blocklinear.model.linear import LinearModel
from blocklinear.options import AddOptions, SplitOptions, TextOptions, TrainOptions
from blocklinear.store.store import BlockStore
from blocklinear.training.loop import train

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from blocklinear.recipe import Recipe  # noqa: E402
from blocklinear.tables import sources  # noqa: E402
from blocklinear.tables.arrow import TableMemory  # noqa: E402
from blocklinear.tables.hashing import hash_text, seed_of  # noqa: E402
from blocklinear.tables.infer import TableOptions, infer  # noqa: E402
from blocklinear.tables.predict import predict_tables  # noqa: E402
from blocklinear.tables.sources import Found, open_source  # noqa: E402
from blocklinear.tables.split import add_tables, split_tables  # noqa: E402
from blocklinear.tables.stream import Tables  # noqa: E402

from .build import N_ROWS, make_table, write  # noqa: E402

LITTLE = {"threads": 2, "memory_bytes": 256 << 20}
OPTIONS = SplitOptions(text=TextOptions(**LITTLE), compression="none", force=True)
FORMATS = ("t.parquet", "t.feather", "t.arrows", "t.csv", "t.csv.gz")


def make_store(folder, table, name="t.parquet", options=OPTIONS, **how):
    how = {"target": "y"} | how
    path = write(table, folder / name)
    return split_tables([str(path)], folder / f"{name}.store", TableOptions(**how), options)


def files(store):
    """Blocks and numbers of features, byte for byte."""
    paths = sorted(store.folder.glob("*/*.blk")) + sorted(store.folder.glob("*/*.map"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.mark.parametrize("how", [{}, {"hash_bits": 10}, {"hash_bits": 10, "standardize": True}])
def test_every_format_makes_the_same_store(tmp_path, how):
    table = make_table()
    stores = [make_store(tmp_path, table, name, **how) for name in FORMATS]
    assert stores[0].manifest.n_rows == len(table)
    assert stores[0].manifest.format == 11
    for store in stores[1:]:
        assert files(store) == files(stores[0])
        assert store.recipe == stores[0].recipe
        assert store.manifest.fingerprint == stores[0].manifest.fingerprint


@pytest.mark.parametrize("how", [{}, {"hash_bits": 10}], ids=str)
def test_integers_of_which_pandas_makes_floats_are_the_same_categories(tmp_path, how):
    columns = {"code": pa.array([7, None, -3, 7] * 5), "y": [0, 1] * 10}
    floats = columns | {"code": columns["code"].cast(pa.float64())}
    stores = [
        make_store(tmp_path, pa.table(table), f"{k}.parquet", categories=("code",), **how)
        for k, table in enumerate((columns, floats))
    ]
    assert files(stores[0]) == files(stores[1])
    assert stores[0].recipe == stores[1].recipe
    added, unseen = add_tables(stores[0].folder, [str(tmp_path / "1.parquet")])
    assert (added.manifest.nnz, unseen) == (40, {})


@pytest.mark.parametrize("name", FORMATS)
def test_files_are_digested_as_they_are_read(tmp_path, name):
    events, sizes, digests = [], [], []
    for part in ("a", "b", "empty"):
        path = tmp_path / "in" / f"{part}-{name}"
        path.parent.mkdir(exist_ok=True)
        write(make_table(seed=1).slice(0, 0 if part == "empty" else None), path)
        sizes.append(path.stat().st_size)
        digests.append(xxhash.xxh64_hexdigest(path.read_bytes()))
    store = split_tables(
        [str(tmp_path / "in")], tmp_path / "store", TableOptions(target="y"), OPTIONS, events.append
    )
    sources = store.manifest.batches[0]["sources"]
    assert [source["xxh64"] for source in sources] == digests
    seen = [event.bytes_read for event in events if isinstance(event, SplitProgress)]
    assert seen == sorted(seen)
    assert sizes[0] <= seen[-1] <= sum(sizes) == events[-1].bytes_total


def test_numbers_make_the_store_that_arrays_frames_and_text_make(tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(500, 4)), 3) * (rng.random((500, 4)) < 0.7)
    y = rng.integers(0, 2, 500)
    columns = {f"x{j}": X[:, j] for j in range(4)}
    found = [make_store(tmp_path, pa.table({**columns, "y": y}), name) for name in FORMATS]
    for k, rows in enumerate((X, csr_array(X), pd.DataFrame(columns), pl.DataFrame(columns))):
        with StoreWriter(tmp_path / f"rows{k}", OPTIONS) as writer:
            writer.append(rows, y)
        found.append(writer.store)
    lines = []
    for label, row in zip(y.tolist(), X.tolist(), strict=True):
        lines.append(" ".join([str(label), *(f"{j + 1}:{v!r}" for j, v in enumerate(row) if v)]))
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    found.append(split([tmp_path / "rows.svm"], tmp_path / "text", OPTIONS))
    assert all(files(store) == files(found[0]) for store in found)


def test_a_model_of_a_table_predicts_a_table(tmp_path):
    table = make_table(words=True)
    store = make_store(tmp_path, table)
    model = train(store, TrainOptions(solver=7, gap=1e-6, memory_bytes=256 << 20))
    model.save(tmp_path / "model")
    model = LinearModel.load(tmp_path / "model")
    out = tmp_path / "out.parquet"
    report = predict_tables(
        model, [str(tmp_path / "t.parquet")], out, decision=True, probability=True, keep=("city",)
    )
    found = pq.read_table(out)
    assert found.column_names[:3] == ["city", "prediction", "decision"]
    assert set(found.column_names[3:]) == {"probability_0", "probability_1"}
    assert found["city"].equals(table["city"])
    assert report.rows == len(table)
    right = np.asarray(found["prediction"]) == np.asarray(table["y"])
    assert report.score.as_dict()["accuracy"] == pytest.approx(right.mean())
    assert right.mean() > 0.8


def naive_decisions(table, model):
    """Decision values worked out from the recipe, value by value."""
    recipe = Recipe.of_json(model.metadata["recipe"])
    weights = {recipe.feature_name(j): w for j, w in enumerate(model.weights[:, 0].tolist())}
    decisions = []
    for row in table.to_pylist():
        total = 0.0
        for column in recipe.columns:
            value = row[column.name]
            if column.kind == "number":
                number = 0.0 if value is None else float(value)
                if value is not None and column.scale is not None:
                    number = (number - column.mean) / column.scale
                total += weights.get(column.name, 0.0) * number
                total += weights.get(f"{column.name}=missing", 0.0) * (value is None)
                continue
            words = value if column.kind == "words" and value is not None else [value]
            for word in words:
                text = "missing" if word is None else str(word)
                text = text.lower() if column.kind == "boolean" else text
                total += weights.get(f"{column.name}={text}", 0.0)
        decisions.append(total)
    return np.array(decisions)


@pytest.mark.parametrize("name", FORMATS[:3])
def test_decisions_are_those_of_the_recipe(tmp_path, name):
    table = make_table(words=True)
    store = make_store(tmp_path, table, name, standardize=True, categories=("code",))
    model = train(store, TrainOptions(solver=7, gap=1e-4, memory_bytes=256 << 20))
    other = make_table(seed=8, n_rows=300, words=True)
    path = write(other, tmp_path / f"other-{name}")
    predict_tables(model, [str(path)], tmp_path / "out.parquet", decision=True)
    found = np.asarray(pq.read_table(tmp_path / "out.parquet")["decision"])
    np.testing.assert_allclose(found, naive_decisions(other, model), rtol=1e-9, atol=1e-12)


def test_tables_are_added_by_the_recipe(tmp_path):
    table = make_table()
    whole = make_store(tmp_path, table)
    first, rest = table.slice(0, 400), table.slice(400)
    part = make_store(tmp_path, first, "first.parquet")
    path = write(rest, tmp_path / "rest.csv")
    added, unseen = add_tables(part.folder, [str(path)], AddOptions(text=TextOptions(**LITTLE)))
    assert added.manifest.n_rows == whole.manifest.n_rows
    assert added.manifest.nnz == whole.manifest.nnz
    assert added.recipe == part.recipe
    assert not unseen
    with pytest.raises(MismatchError, match="same content as an input of batch"):
        add_tables(part.folder, [str(path)])


def test_values_that_are_new_are_counted_and_left_out(tmp_path):
    part = make_store(tmp_path, pa.table({"c": ["a", "b", "a"], "y": [0, 1, 0]}), "a.parquet")
    path = write(pa.table({"c": ["b", "new", None, "new"], "y": [0, 1, 0, 1]}), tmp_path / "b.csv")
    told = []
    added, unseen = add_tables(part.folder, [str(path)], listener=told.append)
    assert unseen == {"c": 3}
    assert added.manifest.nnz == 4
    assert any("left out: c 3" in getattr(event, "message", "") for event in told)


def test_classes_of_text_come_back_as_given(tmp_path):
    table = pa.table({"x": [-1.0, 1.0, -0.9, 0.9], "y": ["no", "yes", "no", "yes"]})
    store = make_store(tmp_path, table)
    model = train(store, TrainOptions(solver=7, cost=100.0, gap=1e-6))
    out = tmp_path / "out.csv"
    report = predict_tables(model, [str(tmp_path / "t.parquet")], out, probability=True)
    lines = out.read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ['"no"', '"yes"', '"no"', '"yes"']
    assert set(lines[0].split(",")) == {'"prediction"', '"probability_no"', '"probability_yes"'}
    assert report.score.as_dict()["accuracy"] == 1.0


def test_hashed_features_come_after_those_of_numbers(tmp_path):
    words = ["red", "green", "", "blue"] * 10
    table = pa.table({"n": np.arange(40.0), "c": words, "y": [0, 1] * 20})
    store = make_store(tmp_path, table, hash_bits=12)
    (own,) = {block[0].shape[1] - (1 << 12) for block in store.iter_csr()}
    seed, expected = seed_of("c"), set()
    for word in words:
        expected.add(own + int(hash_text(word, seed) & np.uint64((1 << 12) - 1)))
    found = {int(j) for X, *_ in store.iter_csr() for j in X.indices if j >= own}
    assert own > 0
    assert found == expected


def test_a_dictionary_hashes_as_its_values_do(tmp_path):
    table = make_table()
    encoded = table.set_column(2, "city", table["city"].combine_chunks().dictionary_encode())
    stores = [
        make_store(tmp_path, t, f"{k}.feather", hash_bits=12)
        for k, t in enumerate((table, encoded))
    ]
    assert files(stores[0]) == files(stores[1])


@pytest.mark.parametrize("hash_bits", [0, 12])
def test_dictionaries_of_parquet_make_the_store_that_values_make(tmp_path, hash_bits):
    table, stores = make_table(words=True), []
    many = pa.array([f"{k % 500:0200}" for k in range(len(table))])  # too large a dictionary
    table = table.append_column("many", many)
    for k, encoded in enumerate((True, False, ["city", "many"])):
        path = tmp_path / f"{k}.parquet"
        pq.write_table(table, path, row_group_size=250, use_dictionary=encoded, compression="none")
        how = TableOptions("y", hash_bits=hash_bits)
        stores.append(split_tables([str(path)], tmp_path / f"s{k}", how, OPTIONS))
    assert files(stores[0]) == files(stores[1]) == files(stores[2])
    assert stores[0].recipe == stores[1].recipe == stores[2].recipe


def viewed(table):
    """The table with its text in views, as polars writes it."""
    t = pa.types

    def of(kind):
        if t.is_dictionary(kind):
            return pa.dictionary(kind.index_type, pa.string_view())
        if t.is_list(kind):
            return pa.large_list(pa.string_view())
        return pa.string_view() if t.is_string(kind) else kind

    def column_of(column):
        array = column.combine_chunks()
        if t.is_dictionary(array.type):
            return pa.DictionaryArray.from_arrays(
                array.indices, array.dictionary.cast(of(pa.string()))
            )
        return pa.array(array.to_pylist(), of(array.type))

    return pa.table({name: column_of(table[name]) for name in table.column_names})


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="pyarrow has no views")
@pytest.mark.parametrize("name", ["t.feather", "t.arrows"])
@pytest.mark.parametrize("hash_bits", [0, 8])
@pytest.mark.parametrize("is_category", [False, True])
def test_views_make_the_store_that_other_text_makes(tmp_path, name, hash_bits, is_category):
    table = make_table(words=True)
    labels = pa.array(
        ["yes" if y else "no" for y in table["y"].to_pylist()], mask=np.arange(N_ROWS) % 7 == 3
    )
    table = table.set_column(
        table.schema.names.index("y"), "y", labels.dictionary_encode() if is_category else labels
    )
    if is_category:
        place = table.schema.names.index("city")
        table = table.set_column(place, "city", table["city"].dictionary_encode())
    options = SplitOptions(text=TextOptions(memory_bytes=512 << 20, on_error="skip"))
    stores = []
    for folder, given in (("strings", table), ("views", viewed(table))):
        (tmp_path / folder).mkdir()
        path = write(given, tmp_path / folder / name, rows_a_group=N_ROWS if is_category else 100)
        how = TableOptions("y", hash_bits=hash_bits)
        stores.append(split_tables([str(path)], tmp_path / folder / "store", how, options))
    assert stores[0].recipe == stores[1].recipe
    assert files(stores[0]) == files(stores[1])
    model = train(stores[1], TrainOptions(memory_bytes=512 << 20))
    for form in ("parquet", "arrow", "csv"):  # CSV has no views
        out = tmp_path / f"o.{form}"
        predict_tables(model, [str(tmp_path / "views" / name)], out, keep=["city", "y"])
    kept = pa.csv.read_csv(tmp_path / "o.csv", convert_options=pa.csv.ConvertOptions(
        null_values=[""], strings_can_be_null=True))  # fmt: skip
    assert kept["city"].to_pylist() == table["city"].to_pylist()
    assert kept["y"].to_pylist() == labels.to_pylist()


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_are_the_same_in_any_unit(tmp_path, zone):
    seconds = pa.array(np.arange(0, 40_000, 100), pa.timestamp("s", zone))
    stores = []
    for unit in ("s", "ms", "us", "ns"):
        times = seconds.cast(pa.timestamp(unit, zone))
        table = pa.table({"t": times, "y": np.arange(400) % 2})
        stores.append(make_store(tmp_path, table, f"{unit}.feather"))
    assert stores[0].recipe["dictionary"][0] == [0, "1970-01-01 00:00:00" + "Z" * bool(zone)]
    assert all(store.recipe == stores[0].recipe for store in stores)
    half = pa.array([500, 1], pa.timestamp("ms", zone))
    store = make_store(tmp_path, pa.table({"t": half, "y": [0, 1]}), "half.feather")
    values = [value for _, value in store.recipe["dictionary"]]
    assert [value[19:] for value in values] == [".5" + "Z" * bool(zone), ".001" + "Z" * bool(zone)]


def test_dates_in_csv_are_midnights_where_times_are_wanted(tmp_path):
    """Their types are guessed, and a CSV of midnights may have no times."""
    days = pa.array(np.arange(0, 8_640_000, 86_400), pa.timestamp("s"))
    table = pa.table({"t": days, "y": np.arange(100) % 2})
    store = make_store(tmp_path, table)
    (tmp_path / "days.csv").write_text(
        "t,y\n" + "".join(f"{day.as_py():%Y-%m-%d},{k % 2}\n" for k, day in enumerate(days))
    )
    added, unseen = add_tables(store.folder, [str(tmp_path / "days.csv")])
    assert (added.manifest.n_rows, unseen) == (200, {})


def test_a_budget_that_pyarrow_alone_would_take(tmp_path):
    little = SplitOptions(text=TextOptions(threads=1, memory_bytes=200 << 20))
    with pytest.raises(MemoryBudgetError, match="tables cannot be read within 200M"):
        make_store(tmp_path, make_table(), options=little)
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def wide_table(n_columns, n_rows):
    values = np.round(np.random.default_rng(0).normal(size=(n_columns, n_rows)), 3)
    return pa.table({"y": np.arange(n_rows) % 2} | {f"x{j}": x for j, x in enumerate(values)})


def least_of(folder, name, memory):
    """What is named where a budget of so many MiB is refused."""
    options = SplitOptions(text=TextOptions(threads=1, memory_bytes=memory << 20))
    with pytest.raises(MemoryBudgetError, match=f"columns cannot be read within {memory}M") as info:
        split_tables([str(folder / name)], folder / "store", TableOptions("y"), options)
    assert not (folder / "store").exists()
    return int(re.search(r"give --memory (\d+)M", str(info.value))[1]), options


def test_a_budget_that_many_columns_of_parquet_would_take(tmp_path):
    write(wide_table(4000, 20), tmp_path / "t.parquet")
    least, options = least_of(tmp_path, "t.parquet", 230)
    options = replace(options, text=replace(options.text, memory_bytes=least << 20))
    store = split_tables(
        [str(tmp_path / "t.parquet")], tmp_path / "store", TableOptions("y"), options
    )
    assert (store.manifest.n_rows, store.manifest.n_features) == (20, 4000)


def test_a_budget_that_many_columns_of_csv_would_take_is_refused_before_it_is_taken(
    tmp_path, monkeypatch
):
    write(wide_table(9000, 1), tmp_path / "t.csv")
    with monkeypatch.context() as patch:
        patch.setattr(sources._Csv, "_reader", None)
        least, _ = least_of(tmp_path, "t.csv", 250)
    assert least_of(tmp_path, "t.csv", least - 1)[0] == least


@pytest.mark.parametrize("memory", [210, 240, 400])
def test_parts_are_no_larger_than_their_share_of_the_budget(tmp_path, memory):
    table = wide_table(500, 3000)
    path = write(table, tmp_path / "t.parquet")
    tables = Tables([str(path)], 1, TableMemory(memory << 20))
    recipe = infer(*tables.schema_to_infer(), TableOptions("y"))
    tables.open(recipe, "it", ["y"])
    rows = [part.n_rows for _, part in tables.parts(recipe.names)]
    assert sum(rows) == 3000
    spare = tables.bytes_for_rows(recipe.names) - PROCESS_BYTES
    assert 16 <= max(rows) <= spare / 8 / (32 * 500)


def test_crosses_are_of_pairs_of_values(tmp_path):
    table = pa.table(
        {"a": ["x", "x", "y"], "b": ["u", "v", "u"], "n": [2.0, 3.0, 4.0], "y": [0, 1, 1]}
    )
    how = {"hash_bits": 20, "interactions": (("a", "b"), ("a", "n"))}
    store = make_store(tmp_path, table, **how)
    assert store.manifest.nnz == 3 * 5
    assert store.manifest.n_features == 1 + 2 + 2 + 3 + 2
    with pytest.raises(UsageError, match="crosses are hashed"):
        make_store(tmp_path, table, interactions=(("a", "b"),))


def test_weights_come_from_a_column(tmp_path):
    table = make_table().append_column("w", pa.array(np.arange(600) % 3 + 0.5))
    store = make_store(tmp_path, table, weight="w")
    assert store.manifest.format == 12
    assert store.manifest.weights["total"] == 600 * 1.5


def test_text_is_not_added_to_tables_nor_tables_to_text(tmp_path):
    from blocklinear.ingest.add import add

    store = make_store(tmp_path, make_table())
    (tmp_path / "rows.svm").write_text("1 1:1\n0 2:1\n")
    with pytest.raises(MismatchError, match="made of tables"):
        add(store, [tmp_path / "rows.svm"])
    text = split([tmp_path / "rows.svm"], tmp_path / "text", OPTIONS)
    with pytest.raises(MismatchError, match="not made of tables"):
        add_tables(text.folder, [str(tmp_path / "t.parquet")])
    with pytest.raises(MismatchError, match="by a recipe"), StoreWriter.add_to(store) as writer:
        writer.append(np.ones((2, 2)), [0, 1])
    assert BlockStore.open(store.folder).manifest.generation == 1


def test_an_altered_recipe_is_damage(tmp_path):
    store = make_store(tmp_path, make_table())
    assert not store.verify().faults
    path = store.folder / "recipe.json"
    path.write_text(path.read_text().replace("Rome", "Rom!"))
    assert any("recipe.json: damaged" in fault for fault in store.verify().faults)
    path.unlink()
    assert any("recipe.json: is missing" in fault for fault in store.verify().faults)


def test_folders_and_patterns_are_files_in_order(tmp_path):
    table = make_table()
    folder = tmp_path / "parts"
    (folder / "_temporary").mkdir(parents=True)
    (folder / "_SUCCESS").touch()
    for k in range(3):
        write(table.slice(200 * k, 200), folder / f"p{k}.parquet")
    whole = make_store(tmp_path, table)
    for name in (folder, folder / "*.parquet"):
        store = split_tables([str(name)], tmp_path / "s", TableOptions("y"), OPTIONS)
        assert files(store) == files(whole)
        assert [s["rows"] for s in store.manifest.batches[0]["sources"]] == [200] * 3


def test_a_summary_lists_some_files_of_many(tmp_path):
    (tmp_path / "parts").mkdir()
    for k in range(30):
        write(pa.table({"x": [1.0], "y": [k % 2]}), tmp_path / "parts" / f"p{k:02}.parquet")
    store = split_tables([str(tmp_path / "parts")], tmp_path / "s", TableOptions("y"), OPTIONS)
    (line,) = (line for line in store.summary().splitlines() if line.startswith("batch b1"))
    assert line.count(".parquet") == 20
    assert "p19.parquet and 10 more, " in line
    assert len(store.describe()["batches"][0]["sources"]) == 30


def test_a_compressed_csv_is_told_by_its_bytes(tmp_path):
    with pa.output_stream(tmp_path / "rows", compression="gzip") as stream:
        stream.write(b"a,y\n1,0\n2,1\n")
    store = split_tables([str(tmp_path / "rows")], tmp_path / "s", TableOptions("y"), OPTIONS)
    assert store.manifest.n_rows == 2


def test_a_table_without_a_target_has_no_score(tmp_path):
    store = make_store(tmp_path, make_table())
    model = train(store, TrainOptions(solver=1, gap=1e-2))
    path = write(make_table(seed=1).drop_columns(["y"]), tmp_path / "new.csv")
    report = predict_tables(model, [str(path)], tmp_path / "out.feather")
    assert report.score is None
    assert report.rows == 600
    with pytest.raises(InputError, match="no column y"):
        predict_tables(model, [str(path)], tmp_path / "out.csv", classes=True)


def test_the_features_of_a_model_have_the_names_of_columns(tmp_path):
    store = make_store(tmp_path, make_table())
    model = train(store, TrainOptions(solver=7, memory_bytes=256 << 20))
    names = [name for name, _ in model.top_weights(100)]
    assert {"age", "age=missing", "city=Zürich", "city=missing", "member=true"} <= set(names)
    assert model.top_weights(1, names=["x"] * model.n_features)[0][0] == "x"
    pytest.importorskip("matplotlib")
    drawn = model.plot_weights(top=5).axes[0].get_yticklabels()
    assert [label.get_text() for label in drawn] == names[:5]


def csv_parts(path, names):
    return open_source(Found(str(path), {}), {}).read(names, 1 << 16)


def test_values_of_csv_with_line_ends_are_read_in_any_block(tmp_path):
    n, values = 50_000, ["a\nb, c", 'd\n\n"e"']
    (tmp_path / "t.csv").write_text("x,t\n" + '1,"a\nb, c"\n2,"d\n\n""e"""\n' * n)
    for part in csv_parts(tmp_path / "t.csv", ["t"]):
        assert set(part.columns["t"].to_pylist()) == set(values)
        n -= part.n_rows / 2
    assert n == 0


def test_a_row_of_csv_that_is_longer_than_the_others(tmp_path):
    """It does not fit in the blocks that short rows are read in."""
    n = 60_000
    rows = [f"{k},a" for k in range(2 * n)]
    rows[n] = f"{n},{'long' * 100_000}"
    (tmp_path / "t.csv").write_text("x,t\n" + "\n".join(rows) + "\n")
    parts = csv_parts(tmp_path / "t.csv", ["x", "t"])
    found = np.concatenate([part.columns["x"].to_numpy() for part in parts])
    np.testing.assert_array_equal(found, np.arange(2 * n))


def test_csv_is_not_read_far_ahead(tmp_path):
    """pyarrow reads 32 blocks ahead, however long it takes to use the first one."""
    (tmp_path / "t.csv").write_text("x,y\n" + "1.25,0\n3.75,1\n" * 2_000_000)
    parts = csv_parts(tmp_path / "t.csv", ["x", "y"])
    assert next(parts).bytes_read <= 40 << 18


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_columns_that_are_text_for_want_of_values_are_named(tmp_path, name):
    table = pa.table({"x": [1, 2], "a": pa.nulls(2), "b": pa.nulls(2), "y": [0, 1]})
    path, warnings = str(write(table, tmp_path / name)), []
    how = TableOptions("y", categories=("b",))
    split_tables([path], tmp_path / "s", how, OPTIONS, warnings.append)
    (told,) = (event.message for event in warnings if isinstance(event, Warned))
    assert told.startswith(f"{path}: no values in 'a', which from now on must be text: ")


@pytest.mark.parametrize("standardize", [False, True])
def test_columns_that_cannot_be_standardised_for_want_of_values_are_named(tmp_path, standardize):
    nothing = pa.array([None, None, 5.0], pa.float64())  # its value is in a row without a target
    table = pa.table(
        {"x": [1, 2, 3], "a": nothing, "b": pa.nulls(3, pa.int64()), "y": [0, 1, None]}
    )
    path, warnings = str(write(table, tmp_path / "t.parquet")), []
    how = TableOptions("y", standardize=standardize)
    skipping = replace(OPTIONS, text=TextOptions(**LITTLE, on_error="skip"))
    split_tables([path], tmp_path / "s", how, skipping, warnings.append)
    told = [event.message for event in warnings if isinstance(event, Warned)]
    named = [text for text in told if text.startswith("no values in 'a', 'b', whose mean")]
    assert len(named) == standardize


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("n_rows", [0, 5], ids=["no rows", "no values"])
def test_types_of_columns_that_have_no_values_in_the_first_table(tmp_path, name, n_rows):
    """As in a file that is a header alone: all columns of numbers were text, and the target too."""
    table = make_table()
    alone = make_store(tmp_path, table, name)
    empty = pa.table({column: pa.nulls(n_rows) for column in table.column_names})
    half = pa.table({"n": pa.nulls(1), "y": [1]})  # without the other columns
    paths = [str(write(empty, tmp_path / f"a-{name}")), str(tmp_path / name)]
    warnings, skipping = [], replace(OPTIONS, text=TextOptions(**LITTLE, on_error="skip"))
    store = split_tables(paths, tmp_path / "s", TableOptions("y"), skipping, warnings.append)
    assert store.recipe == alone.recipe
    assert store.manifest.n_rows == alone.manifest.n_rows
    assert store.manifest.labels == alone.manifest.labels
    assert not any(isinstance(e, Warned) and "no values in" in e.message for e in warnings)
    with pytest.raises(InputError, match=f"the columns do not fit .*half-{name}: no column 'age'"):
        split_tables([paths[0], str(write(half, tmp_path / f"half-{name}")), paths[1]],
                     tmp_path / "s", TableOptions("y"), skipping)  # fmt: skip


@pytest.mark.parametrize("name", FORMATS[:3])
@pytest.mark.parametrize("index", ["name", None], ids=["named", "nameless"])
def test_an_index_of_pandas_is_no_column(tmp_path, name, index):
    """Each row has another value: there would be a feature for each, and no other file has them."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [0, 1, 0, 1]})
    plain = make_store(tmp_path, pa.Table.from_pandas(frame), "plain.parquet")
    indexed = pa.Table.from_pandas(frame.set_index(pd.Index(list("abcd"), name=index)))
    column = index or "__index_level_0__"
    assert indexed.column_names == ["x", "y", column]
    path, warnings = str(write(indexed, tmp_path / name)), []
    store = split_tables([path], tmp_path / "s", TableOptions("y"), OPTIONS, warnings.append)
    assert store.recipe == plain.recipe
    assert files(store) == files(plain)
    told = [event.message for event in warnings if isinstance(event, Warned)]
    left_out = f"{path}: the index of pandas is left out, 'name': to take it, name it in --columns"
    assert told == ([left_out] if index else [])

    how = {"columns": ("x", column)}, {"categories": (column,)}
    for options in how:
        warnings.clear()
        taken = split_tables(
            [path], tmp_path / "s", TableOptions("y", **options), OPTIONS, warnings.append
        )
        assert [c["name"] for c in taken.recipe["columns"]] == ["x", column]
        assert not any(isinstance(event, Warned) for event in warnings)
    model = train(taken, TrainOptions(solver=1))
    predict_tables(model, [path], tmp_path / "out.csv")  # named in the recipe, the index is read


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"index_columns": 7}', b"\xff", b"{}"], ids=repr
)
def test_what_is_not_written_by_pandas(tmp_path, content):
    table = pa.table({"x": [1.0, 2.0], "y": [0, 1]}).replace_schema_metadata({"pandas": content})
    assert make_store(tmp_path, table).recipe["columns"][0]["name"] == "x"


@pytest.mark.parametrize("how", [{}, {"hash_bits": 10}], ids=str)
def test_categories_of_csv_that_pandas_has_made_floats_of(tmp_path, how):
    """They are other categories than before, which nothing said where values are hashed."""
    whole, floats = tmp_path / "a.csv", [tmp_path / "b.csv", tmp_path / "c.csv"]
    whole.write_text("c,d,y\n7,1.0,0\n8,2.5,1\n")
    for path in floats:
        path.write_text("c,d,y\n7.0,1.0,0\n,2.5,1\n")
    warnings = []
    options = TableOptions("y", categories=("c",), **how)
    store = split_tables([str(whole)], tmp_path / "store", options, OPTIONS, warnings.append)
    assert not any(isinstance(event, Warned) for event in warnings)
    expected = f"{floats[0]}: categories in 'c' end in .0, and 7.0 is not 7: pandas writes"
    add_tables(store.folder, [str(path) for path in (whole, *floats)],
               AddOptions(allow_duplicate=True), warnings.append)  # fmt: skip
    told = [event.message for event in warnings if isinstance(event, Warned)]
    assert [message.startswith(expected) for message in told] == [True] + [False] * (not how)
    warnings.clear()
    predict_tables(train(store, TrainOptions()), [str(floats[0])], tmp_path / "out.csv",
                   listener=warnings.append)  # fmt: skip
    assert any(e.message.startswith(expected) for e in warnings if isinstance(e, Warned))
    warnings.clear()
    like_this = split_tables(list(map(str, floats)), tmp_path / "other", options, OPTIONS,
                             warnings.append)  # fmt: skip
    assert [e.message.startswith(expected) for e in warnings if isinstance(e, Warned)] == [True]
    warnings.clear()
    add_tables(like_this.folder, [str(floats[0])], AddOptions(allow_duplicate=True),
               warnings.append)  # fmt: skip
    assert any(isinstance(event, Warned) for event in warnings) == bool(how)
