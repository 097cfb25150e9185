"""What a batch is refused for, in which words, and that nothing is left behind."""

import datetime
from decimal import Decimal

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

from blocklinear.batches.writer import StoreWriter
from blocklinear.errors import InputError, MemoryBudgetError, UsageError, WrongTypeError
from blocklinear.options import AddOptions, SplitOptions

from .rows import append, make_options

pd, pl, pa = map(pytest.importorskip, ("pandas", "polars", "pyarrow"))


def sparse(data, indices, indptr, shape):
    """A CSR matrix that SciPy does not check."""
    X = csr_matrix(shape)
    X.data, X.indices, X.indptr = np.array(data), np.array(indices), np.array(indptr)
    return X


def moved(X, row):
    """Return a COO matrix with the first entry in another row, which it need not have."""
    X.row[0] = row
    return X


X2 = np.array([[1.0, 2.0], [3.0, 4.0]])
Y2 = [1, 2]


def with_cell(value, kind=np.float64):
    X = np.ones((4, 3), kind)
    X[2, 1] = value
    return X


BAD_X = [
    (with_cell(np.nan), "row 2, column 1: the value is NaN or inf"),
    (with_cell(-np.inf), "row 2, column 1: the value is NaN or inf"),
    (with_cell(np.inf, np.float16), "row 2, column 1: the value is NaN or inf"),
    (csr_array(with_cell(np.nan)), "row 2, column 1: the value is NaN or inf"),
    (with_cell(-1e154), "row 2, column 1: the value is too large: its square overflows"),
    (np.full((4, 3), 9e153), r"row 0: its squares add up to 1.5e\+308 or more"),
    (with_cell(2**53 + 1, np.int64), "row 2, column 1: 9007199254740993 is beyond 2"),
    (with_cell(-(2**53) - 1, np.int64), "row 2, column 1: -9007199254740993 is beyond 2"),
    (with_cell(2**64 - 1, np.uint64), "row 2, column 1: 18446744073709551615 is beyond"),
    (csr_array(with_cell(2**53 + 1, np.int64)), "row 2, column 1: 9007199254740993 is beyond"),
    (
        pd.DataFrame(
            {"a": pd.arrays.SparseArray([0, 2**53 + 1], fill_value=0), "b": [0.5, 0.0]}
        ),
        "row 1, column 'a': 9007199254740993 is beyond",
    ),
    (
        pd.DataFrame(
            {
                "a": pd.arrays.SparseArray([0, 2**53 + 1], fill_value=0),
                "b": pd.arrays.SparseArray([0.5, 0.0], fill_value=0.0, kind="block"),
            }
        ),
        "row 1, column 'a': 9007199254740993 is beyond",
    ),
    (with_cell(2**53 + 1, object), "row 2, column 1: 9007199254740993 is beyond 2"),
    (with_cell(Decimal(2**53 + 1), object), "row 2, column 1: 9007199254740993 is beyond 2"),
    (with_cell(10**400, object), "row 2, column 1: the value is NaN or inf"),
    (with_cell(None, object), r"row 2, column 1: the value is missing \(None\)"),
    (with_cell("1.5", object), "row 2, column 1: the value is text, '1.5', not a number"),
    (with_cell(b"1.5", object), "row 2, column 1: the value is text, '1.5', not a number"),
    (with_cell({}, object), "row 2, column 1: a dict is not a number"),
    (with_cell(1j, object), "row 2, column 1: a complex is not a number"),
    (with_cell(1, np.complex128), "array has values of type complex128, which are not numbers"),
    (csr_array(np.ones((4, 3), complex)), "csr_array has values of type complex128"),
    (with_cell("a", "U1"), "array has values of type <U1, which are not numbers"),
    ([["a"]] * 4, "list has values of type <U1, which are not numbers"),
    ([[1, 2], [1, 2], [1], [1, 2]], "list: its rows differ in length"),
    (np.ones((4, 3), "M8[s]"), r"array has values of type datetime64\[s\]"),
    (np.ones(4), r"array of shape \(4,\)\n.*two dimensions"),
    (np.ones((4, 3, 2)), r"array of shape \(4, 3, 2\)"),
    (coo_array(np.ones(4)), r"coo_array of shape \(4,\)"),
    (7, r"int of shape \(\)"),
    (np.ma.masked_equal(with_cell(7), 7), "row 2, column 1: the value is masked"),
    (
        sparse([1.0] * 5, [0, 1, 2, 0, 1], [0, 1, 2, 5, 5], (4, 3)),
        "row 2, column 0: it follows column 2, which is larger\n.*sort_indices",
    ),
    (
        sparse([1.0] * 4, [0, 1, 1, 2], [0, 0, 0, 4, 4], (4, 3)),
        "row 2, column 1: the column is repeated in the row\n.*sum_duplicates",
    ),
    (
        coo_array(([1.0, 1.0, 5.0], ([2, 0, 2], [1, 0, 1])), shape=(4, 3)),
        "row 2, column 1: the column is repeated in the row\n.*sum_duplicates",
    ),
    (sparse([1.0, 1.0], [0, -1], [0, 1, 1, 2, 2], (4, 3)), "row 2: column -1 is none of the 3"),
    (sparse([1.0, 1.0], [0, 3], [0, 1, 1, 2, 2], (4, 3)), "row 2: column 3 is none of the 3"),
    (sparse([1.0, 1.0], [0, -1], [0, 1, 1, 2], (3, 4)).T, "csc_matrix: "),
    (moved(coo_array(np.eye(4, 3)), -1), "coo_array: there are places from -1 to 2 of 4"),
    (moved(coo_array(np.eye(4, 3)), 4), "coo_array: there are places from 1 to 4 of 4"),
    (sparse([1.0, 1.0], [0, 1], [0, 1, 2, 1, 2], (4, 3)), "csr_matrix: its row pointers decrease"),
    (sparse([1.0, 1.0], [0, 1], [0, 1, 2, 3, 4], (4, 3)), "csr_matrix: its row pointers are not"),
    (pd.DataFrame({"a": [1, 2, None, 4]}), "row 2, column 'a': the value is NaN or inf"),
    (pd.DataFrame({"a": [1, 2, None, 4]}, dtype="Int64"), "row 2, column 'a': .* is missing"),
    (pd.DataFrame({"a": [1.5] * 4, "b": list("abcd")}), "column 'b' is of type str"),
    (pd.DataFrame({"b": list("abcd")}, dtype=object), "row 0, column 'b': the value is text, 'a'"),
    (pd.DataFrame({"b": list("abcd")}, dtype="category"), "column 'b' is of type category"),
    (pd.DataFrame({"b": pd.date_range("2026-01-01", periods=4)}), "column 'b' is of type datetime"),
    (pd.DataFrame({"a": pd.arrays.SparseArray([0, 0, np.nan, 0.0])}), "row 2, column 'a': .* NaN"),
    (
        pd.DataFrame({"a": pd.arrays.SparseArray([0, np.nan, 1, 0.0], fill_value=0), "b": 1}),
        "row 1, column 'a': .* NaN",
    ),
    (pl.DataFrame({"a": [1, 2, None, 4]}), "row 2, column 'a': the value is missing"),
    (pl.DataFrame({"a": list("abcd")}), "column 'a' is of type .*string"),
    (pl.DataFrame({"a": [[1]] * 4}), "column 'a' is of type .*list"),
    (pa.table({"a": [1, 2, None, 4]}), "row 2, column 'a': the value is missing"),
    (pa.table({"a": pa.array([1, 2, 3, 2**53 + 1])}), "row 3, column 'a': 9007199254740993 is"),
    (pa.table({"d": [datetime.date(2026, 1, 1)] * 4}), "column 'd' is of type date32"),
    (pa.table({"d": pa.array(["a"]).dictionary_encode()}), "column 'd' is of type dictionary"),
    (pd.DataFrame({"a": pd.arrays.SparseArray([1, "b", 0, 1], fill_value=0)}), "row 1, .* is text"),
    (pd.Series([1.0, 2.0]), "pandas.Series is no table that pyarrow can read"),
    (pl.DataFrame({"a": [1, 2]}, schema={"a": pl.Int128}), "polars.DataFrame is no table that"),
    (pl.Series([1.0] * 4), "polars.Series is no table that pyarrow can read"),
    (pa.array([1.0] * 4), "pyarrow.DoubleArray is no table that pyarrow can read"),
]  # fmt: skip


def test_options_of_another_function_are_refused(tmp_path):
    with pytest.raises(WrongTypeError, match="AddOptions, but must be SplitOptions"):
        StoreWriter(tmp_path / "s", AddOptions())
    with pytest.raises(WrongTypeError, match="SplitOptions, but must be AddOptions"):
        StoreWriter.add_to(tmp_path / "s", SplitOptions())


@pytest.mark.parametrize(("X", "message"), BAD_X, ids=range(len(BAD_X)))
def test_rows_that_are_refused(tmp_path, X, message):
    with StoreWriter(tmp_path / "good", make_options()) as writer:
        writer.append(np.ones((2, 3)), Y2)
    add = StoreWriter.add_to(writer.store)
    with pytest.raises(InputError, match=f"^batch 1: {message}"), add as writer:
        writer.append(X, [1, 2, 1, 2])
    with pytest.raises(InputError, match=f"^batch 1: {message}"):
        append(tmp_path, [(X, [1, 2, 1, 2])], make_options())
    assert [path.name for path in tmp_path.iterdir()] == ["good"]
    assert sorted(path.name for path in (tmp_path / "good" / "blocks").iterdir()) == [
        block.name for block in writer._place._old.manifest.blocks
    ]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 2, 3], r"X has 2 rows, and y the shape \(3,\)"),
        ([[1], [2]], r"X has 2 rows, and y the shape \(2, 1\)|row 0: the label is a list"),
        (np.ones((2, 1)), r"X has 2 rows, and y the shape \(2, 1\)"),
        ([1, np.nan], "row 1: label nan is not finite"),
        ([1, np.inf], "row 1: label inf is not finite"),
        ([1, 1e154], r"row 1: label 1e\+154 is too large"),
        ([1, None], "row 1: the label is missing"),
        (["a", None], "row 1: the label is missing"),
        (pd.Series([None, "a"]), "row 0: the label is missing"),
        (pd.Series(["a", pd.NA], dtype="string"), "row 1: the label is missing"),
        ([1, pd.NA], "row 1: the label is missing"),
        (["a", 1], "row 1: text and numbers are mixed"),
        ([1, "a"], "row 1: text and numbers are mixed"),
        ([1, {}], "row 1: the label is a dict"),
        ([b"a", b"b"], "row 0: the label is a bytes"),
        (np.array([b"a", b"b"]), "labels are of type"),
        (np.array([1j, 2]), "labels are of type complex128"),
        (np.array(["2026-01-01"] * 2, "M8[D]"), "labels are of type datetime"),
        (np.ma.masked_equal([1, 2], 2), "labels are masked"),
        (pd.Series(["a", None]), "row 1: "),
        (["a\nb", "c"], r"row 0: label 'a\\nb' is not printable"),
        (["a", "b" * 1001], "row 1: label 'b+...' is over 1000 long"),
        ([1, 10**1500], "row 1: the label has over 1000 digits"),
    ],
)
def test_labels_that_are_refused(tmp_path, y, message):
    with pytest.raises(InputError, match=f"^batch 1: ({message})"):
        append(tmp_path, [(X2, y)], make_options())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1], r"X has 2 rows, and sample_weight the shape \(1,\)"),
        ([1, -0.5], "row 1: sample_weight is -0.5"),
        ([np.nan, 1], "row 0: sample_weight is nan"),
        ([1, 1e154], r"row 1: sample_weight is 1e\+154"),
        (["a", "b"], "sample_weight is not of numbers"),
        (["1", "2"], "sample_weight is not of numbers"),
        (np.array(["1", 2], object), "sample_weight is not of numbers"),
        (np.array([1, 1j]), "sample_weight is not of numbers"),
        (np.array([1, 1j], object), "sample_weight is not of numbers"),
        (np.array([b"1", b"2"]), "sample_weight is not of numbers"),
        (np.array([1, 2], "M8[s]"), "sample_weight is not of numbers"),
        (np.ma.masked_equal([1, 2], 2), "sample_weight is not of numbers"),
        ([[1], [1, 2]], "sample_weight is not of numbers"),
        ([1, 10**400], "sample_weight is not of numbers"),
    ],
)
def test_weights_that_are_refused(tmp_path, weights, message):
    with pytest.raises(InputError, match=f"^batch 1: {message}"):
        append(tmp_path, [(X2, Y2, weights)], make_options())


FRAME = pd.DataFrame(X2, columns=["a", "b"])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ((X2, Y2), (X2[:, :1], Y2), "it has 1 column, and those before have 2"),
        ((X2, Y2), (X2, ["a", "b"]), "row 0: the label is text, and those before were numbers"),
        ((X2, ["a", "b"]), (X2, Y2), "row 0: the label is a number, and those before were text"),
        ((X2, Y2), (X2, Y2, [1, 1]), "has sample_weight; those before had none"),
        ((X2, Y2, [1, 1]), (X2, Y2), "has no sample_weight; those before had"),
        ((FRAME, Y2), (FRAME[["b", "a"]], Y2), "its columns are not .*: they are in another order"),
        (
            (FRAME, Y2), (FRAME.rename(columns={"a": "c"}), Y2),
            "its columns are not those of the batches before: it lacks 'a'; it has besides 'c'",
        ),
        ((X2, [1, 2**60]), (X2, [1.0, 2.0**60]), "row 1: labels beyond 2.*53 are integers here"),
        ((X2, [1.0, 2.0**60]), (X2, [1, 2**60]), "row 1: labels beyond 2.*53 are integers here"),
    ],
)  # fmt: skip
def test_batches_that_do_not_fit_those_before(tmp_path, first, second, message):
    with pytest.raises(InputError, match=f"^batch 2:? {message}"):
        append(tmp_path, [first, second], make_options())
    assert list(tmp_path.iterdir()) == []


def test_a_batch_without_names_may_follow(tmp_path):
    append(tmp_path, [(FRAME, Y2), (X2, Y2)], make_options())


def go_on_after_a_refused_batch(writer):
    with writer:
        writer.append(X2, Y2)
        with pytest.raises(InputError):
            writer.append(X2, [1, np.nan])
        with pytest.raises(UsageError, match="takes no more: a batch was refused"):
            writer.append(X2, Y2)


def test_after_a_refused_batch_nothing_is_taken_or_written(tmp_path):
    with pytest.raises(InputError, match="a batch was refused, so nothing is written"):
        go_on_after_a_refused_batch(StoreWriter(tmp_path / "store", make_options()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit, GeneratorExit])
def test_left_by_an_exception_nothing_is_left(tmp_path, error):
    def work():
        with StoreWriter(tmp_path / "store", make_options()) as writer:
            writer.append(X2, Y2)
            raise error

    with pytest.raises(error):
        work()
    assert list(tmp_path.iterdir()) == []


def test_a_writer_is_used_once_and_within_with(tmp_path):
    writer = StoreWriter(tmp_path / "store", make_options())
    with pytest.raises(UsageError, match="this StoreWriter is closed"):
        writer.append(X2, Y2)
    with writer:
        writer.append(X2, Y2)
    with pytest.raises(UsageError, match="is closed"):
        writer.append(X2, Y2)
    with pytest.raises(UsageError, match="is used once"), writer:
        pass
    assert writer.store.verify().faults == []


def test_no_rows_make_no_store(tmp_path):
    with pytest.raises(InputError, match="no rows were appended"):
        append(tmp_path, [(X2[:0], [])], make_options())
    with pytest.raises(InputError, match="no rows were appended"):
        append(tmp_path, [], make_options())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"weights": "file"}, UsageError, "weights names a file"),
        ({"order": "file", "blocks": 3}, UsageError, "is known only at the end"),
        ({"text": make_options(on_error="skip").text}, UsageError, "on_error is 'skip'"),
        ({"text": make_options(expect_rows=3).text}, InputError, "2 rows, not the 3 expected"),
        ({"text": make_options(max_features=1).text}, MemoryBudgetError, "its columns make 2 feat"),
        (
            {"text": make_options(max_features=7, hash_bits=3).text}, MemoryBudgetError,
            "3 hash bits make 8 features",
        ),
    ],
)  # fmt: skip
def test_options_that_batches_cannot_have(tmp_path, options, kind, message):
    with pytest.raises(kind, match=message):
        append(tmp_path, [(X2, Y2)], SplitOptions(**options))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([(X2, Y2)], "an item of batches is a tuple of length 2, but must be a tuple of 3"),
        ([(X2, Y2, None), [X2]], "an item of batches is a list of length 1"),
        ([(X2, Y2, None, 3)], "an item of batches is a tuple of length 4"),
        ((X2, Y2, None), r"an item of batches is a ndarray of shape \(2, 2\)"),
        ([None], "an item of batches is a NoneType"),
        (7, "batches is int, but must be an iterable"),
    ],
    ids=range(6),
)
def test_items_that_are_no_batches(tmp_path, batches, found):
    message = found + r".*\n  fix: give \(X, y, sample_weight\)"
    with pytest.raises(WrongTypeError, match=message), StoreWriter(tmp_path / "s") as writer:
        writer.append_all(batches)
    assert not (tmp_path / "s").exists()


def test_of_several_batches_that_are_refused_the_first_is_told(tmp_path):
    def batches():
        yield [[1.0], [float("nan")]], [0, 1], None  # found when it is converted
        yield [[1.0]], [0, 1], None  # found when it is taken

    with pytest.raises(InputError, match="batch 1: row 1"), StoreWriter(tmp_path / "s") as writer:
        writer.append_all(batches())
    assert not (tmp_path / "s").exists()


def test_batches_end_with_an_error(tmp_path):
    def batches():
        yield [[1.0]], [0], None
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"), StoreWriter(tmp_path / "s") as writer:
        writer.append_all(batches())
    assert not (tmp_path / "s").exists()
