"""Batches of every kind make the blocks, byte for byte, that the text of their rows makes."""

import importlib.util
from decimal import Decimal

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.batches.writer import StoreWriter
from blocklinear.errors import InputError
from blocklinear.ingest.split import split
from blocklinear.options import SplitOptions, TextOptions

from .rows import N_COLUMNS, append, as_text, files, make_options, make_rows, split_text

pd, pl, pa = map(pytest.importorskip, ("pandas", "polars", "pyarrow"))
NAMES = [f"c{j}" for j in range(N_COLUMNS)]


def frame(X):
    return pd.DataFrame(X.toarray(), columns=NAMES)


def chunked(X):
    table = pa.Table.from_pandas(frame(X))
    return pa.concat_tables([table.slice(0, 1000), table.slice(1000)])


KINDS = {
    "csr": lambda X: X,
    "csr, wide indices": lambda X: scipy.sparse.csr_array(
        (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape
    ),
    "csr_matrix": scipy.sparse.csr_matrix,
    "csc": lambda X: X.tocsc(),
    "coo": lambda X: X.tocoo(),
    "lil": lambda X: X.tolil(),
    "array": lambda X: X.toarray(),
    "array in columns": lambda X: np.asfortranarray(X.toarray()),
    "list": lambda X: X.toarray().tolist(),
    "objects": lambda X: X.toarray().astype(object),
    "pandas": frame,
    "pandas, sparse": lambda X: pd.DataFrame.sparse.from_spmatrix(X, columns=NAMES),
    "pandas, some sparse": lambda X: pd.concat(
        [pd.DataFrame.sparse.from_spmatrix(X[:, :7], columns=NAMES[:7]), frame(X)[NAMES[7:]]],
        axis=1,
    ),
    "pandas, nullable": lambda X: frame(X).astype("Float64"),
    "pandas, of arrow": lambda X: frame(X).astype("double[pyarrow]"),
    "polars": lambda X: pl.DataFrame(X.toarray(), schema=NAMES),
    "arrow table": chunked,
    "arrow batch": lambda X: chunked(X).combine_chunks().to_batches()[0],
    "arrow reader": lambda X: chunked(X).to_reader(),
}


@pytest.fixture(scope="module")
def rows():
    return make_rows()


@pytest.fixture(scope="module")
def of_text(tmp_path_factory, rows):
    return files(split_text(tmp_path_factory.mktemp("text"), as_text(*rows), make_options()))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_makes_the_blocks_of_the_text(tmp_path, rows, of_text, kind):
    X, y = rows
    store = append(tmp_path, [(KINDS[kind](X), y)], make_options())
    assert files(store) == of_text
    assert store.manifest.dimension == N_COLUMNS
    assert store.verify().faults == []


def test_polars_needs_no_pyarrow(tmp_path, rows, of_text, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "pyarrow" else find(name, *a)
    )
    X, y = rows
    assert files(append(tmp_path, [(KINDS["polars"](X), y)], make_options())) == of_text
    with pytest.raises(InputError, match=r"reading it takes|rows, features"):
        append(tmp_path, [(chunked(X).schema, y)], make_options())


@pytest.mark.parametrize("kind", ["bool", "boolean", "bool[pyarrow]", "Sparse[bool]", object])
def test_booleans_of_any_type_are_taken(tmp_path, kind):
    X = pd.DataFrame({"a": [True, False, True]}).astype(kind)
    ((rows, _, _),) = append(tmp_path, [(X, [1, 2, 3])], make_options()).iter_csr()
    assert rows.sum() == 2.0


@pytest.mark.parametrize("size", [1, 7, 999, 3000, 3001])
def test_how_batches_are_cut_makes_no_difference(tmp_path, rows, of_text, size):
    X, y = (part[: N_ROWS_CUT[size]] for part in rows)
    text = split_text(tmp_path, as_text(X, y), make_options())
    batches = [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]
    store = append(tmp_path, [(X[:0], y[:0]), *batches], make_options())
    assert files(store) == files(text)


N_ROWS_CUT = {1: 40, 7: 700, 999: 3500, 3000: 3500, 3001: 3500}


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "float32"},
        {"order": "file"},
        {"normalize": "l2"},
        {"renumber": False},
        {"index_base": 0},
        {"hash_bits": 3},
        {"hash_bits": 20, "unsorted": "sort"},
        {"threads": 1},
        {"memory_bytes": 1 << 31, "threads": 3},
    ],
)
def test_options_do_the_same(tmp_path, rows, options):
    X, y = rows
    if options.get("dtype") == "float32":
        X = X * 1e-30
    first = options.get("index_base", 1)
    text = as_text(X, y)
    if first == 0:
        X = scipy.sparse.hstack([scipy.sparse.csr_array((len(y), 1)), X], format="csr")
    of_text = split_text(tmp_path, text, make_options(**options))
    batches = [(X[i : i + 1234], y[i : i + 1234]) for i in range(0, len(y), 1234)]
    store = append(tmp_path, batches, make_options(**options))
    assert files(store) == files(of_text)
    same = ("dimension", "n_features", "index_base", "hash_bits", "labels", "dtype", "blocks")
    for name in same:
        assert getattr(store.manifest, name) == getattr(of_text.manifest, name), name
    for count in ("hash_collisions", "zeros"):
        assert store.manifest.total(count) == of_text.manifest.total(count)


def test_weights_do_the_same(tmp_path, rows):
    X, y = rows
    weights = np.random.default_rng(1).integers(0, 4, len(y)) / 4
    (tmp_path / "weights").write_text("".join(f"{w}\n" for w in weights))
    source = tmp_path / "text.svm"
    source.write_text(as_text(X, y))
    options = SplitOptions(
        text=make_options().text, compression="none", weights=str(tmp_path / "weights")
    )
    of_text = split([source], tmp_path / "text", options)
    batches = [(X[:99], y[:99], weights[:99]), (X[99:], y[99:], weights[99:].tolist())]
    store = append(tmp_path, batches, make_options())
    assert files(store) == files(of_text)
    assert store.manifest.weights == of_text.manifest.weights
    assert "weights of rows: 0.25 to 0.75" in store.summary()


def test_unsorted_and_repeated_entries_are_what_the_options_say(tmp_path):
    X = scipy.sparse.csr_array(
        ([1.0, 2.0, 3.0, 0.1, 0.2], [4, 1, 1, 0, 0], [0, 3, 5]), shape=(2, 5)
    )
    options = make_options(unsorted="sort", duplicates="sum")
    of_text = split_text(tmp_path, "1 5:1 2:2 2:3\n2 1:0.1 1:0.2\n", options)
    store = append(tmp_path, [(X, [1, 2])], options)
    assert files(store) == files(of_text)
    assert store.manifest.total("merged_entries") == 2
    assert store.manifest.total("sorted_rows") == 1


NUMBERS = st.floats(-1e100, 1e100) | st.builds(
    lambda m, e: m / 10**e, st.integers(-(10**17), 10**17), st.integers(0, 25)
)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8))
@settings(max_examples=40)
def test_numbers_are_stored_as_their_shortest_text(tmp_path_factory, numbers):
    folder = tmp_path_factory.mktemp("numbers")
    X = scipy.sparse.csr_array(np.array(numbers)[:, 1:])
    y = np.array(numbers)[:, 0]
    of_text = split_text(folder, as_text(X, y), make_options())
    assert files(append(folder, [(X, y)], make_options())) == files(of_text)


DENSE = np.array([[0, 1, 2], [3, 0, 1], [0, 0, 0], [1, 1, 100]])


OF_SCIPY = ["bool", "int8", "uint8", "int16", "int64", "uint64", "float32", "longdouble"]
"""Types of numbers that sparse arrays may be of."""


@pytest.mark.parametrize(
    ("make", "kind"),
    [(scipy.sparse.csr_array, kind) for kind in OF_SCIPY]
    + [(make, kind) for make in (np.asarray, pd.DataFrame) for kind in (*OF_SCIPY, "float16", "O")],
)
def test_types_of_numbers(tmp_path, make, kind):
    array = (DENSE != 0 if kind == "bool" else DENSE).astype(kind)
    rows = scipy.sparse.csr_array(array.astype(float))
    of_text = files(split_text(tmp_path, as_text(rows, [1, 2, 1, 2]), make_options()))
    for y in ([True, True, False, False], np.array([1, 1, 0, 0], "uint8"), pl.Series([1, 1, 0, 0])):
        text = split_text(tmp_path, as_text(rows, [1, 1, 0, 0]), make_options())
        assert files(append(tmp_path, [(make(array), y)], make_options())) == files(text)
    store = append(tmp_path, [(make(array), [Decimal(1), 2.0, 1, np.int8(2)])], make_options())
    assert files(store) == of_text


def test_float32_is_taken_exactly(tmp_path):
    X = np.array([[0.1, 1 / 3]], np.float32)
    store = append(tmp_path, [(X, [1])], make_options())
    wide = scipy.sparse.csr_array(X.astype(np.float64))
    assert files(store) == files(split_text(tmp_path, as_text(wide, [1]), make_options()))


def test_zeros_that_are_stored_are_dropped(tmp_path):
    X = scipy.sparse.csr_array(([1.0, 0.0, -0.0], [0, 1, 2], [0, 2, 3]), shape=(2, 3))
    of_text = split_text(tmp_path, "1 1:1 2:0\n2 3:-0\n", make_options())
    store = append(tmp_path, [(X, [1, 2])], make_options())
    assert files(store) == files(of_text)
    assert store.manifest.total("zeros") == 2
    assert store.manifest.dimension == of_text.manifest.dimension == 3


def test_a_row_longer_than_a_piece(tmp_path):
    X = scipy.sparse.random_array((3, 60_000), density=0.9, format="csr", random_state=0)
    X.sort_indices()
    X.data.round(2, out=X.data)
    X.data[X.data == 0] = 1
    options = make_options(memory_bytes=128 << 20, threads=8)
    of_text = split_text(tmp_path, as_text(X, [1, 2, 3]), options)
    assert files(append(tmp_path, [(X, [1, 2, 3])], options)) == files(of_text)


def test_rows_without_columns(tmp_path):
    of_text = split_text(tmp_path, "1\n2\n", make_options())
    store = append(tmp_path, [(np.empty((2, 0)), [1, 2])], make_options())
    assert files(store) == files(of_text)


def test_sparse_batches_may_differ_in_width(tmp_path):
    X, y = make_rows(n_rows=50)
    with StoreWriter(tmp_path / "store", SplitOptions(text=TextOptions(threads=1))) as writer:
        writer.append(X[:, :9], y)
        writer.append(X, y)
    assert writer.store.manifest.dimension == N_COLUMNS
