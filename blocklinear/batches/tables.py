"""What a batch of rows may be: SciPy matrices, arrays, lists, data frames, Arrow tables.

`as_table` is the door. All kinds have numbers only: who has text, categories or dates makes numbers
of them before.
"""

import importlib.util
import numbers
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklinear.arguments import check_sparse
from blocklinear.errors import InputError, quoted, quoted_name

MOST_EXACT = 1 << 53
"""All integers up to this have a float64 of their own."""
_NUMBERS_ONLY = "make numbers of it, or leave the column out"


class Entries(NamedTuple):
    """Room for the entries of rows, one row after the other."""

    indptr: NDArray[np.int64]  # int64[n_rows + 1]: where each row begins, and the last ends
    indices: NDArray[np.uint32]  # uint32[nnz]
    values: NDArray[np.float64]  # float64[nnz]


class Table(ABC):
    """Rows of numbers.

    Attributes
    ----------
    kind : str                what it is, for people
    n_rows, n_columns : int
    names : tuple of str or None        of the columns, if they have any
    place : str               where it comes from, for people; empty for a batch by its number
    any_width : bool          whether the next may have another number of columns
    """

    kind: str
    n_rows: int
    n_columns: int
    names: tuple[str, ...] | None = None
    place: str = ""
    any_width: bool = False

    @abstractmethod
    def stop_of(self, start: int, most_rows: int, most_entries: int) -> int:
        """Return where a piece ends that begins at `start`: it has one row at least."""

    @abstractmethod
    def n_entries(self, start: int, stop: int) -> int:
        """Return how many entries rows have, zeros that are written out included."""

    @abstractmethod
    def put(self, start: int, stop: int, base: int, out: Entries) -> None:
        """Write rows start..stop-1; columns become indices, from `base` on.

        InputError is raised if a number has no float64, or a column is impossible.
        """

    @abstractmethod
    def column_of(self, row: int, place: int) -> int:
        """Return the column of an entry of a row."""

    def cell(self, row: int, column: int) -> str:
        """Return where something is, for people."""
        return f"row {row}, {self.column(column)}"

    def column(self, column: int) -> str:
        """Return which column it is, for people."""
        if self.names is None:
            return f"column {column}"
        return f"column {quoted_name(self.names[column])}"


class SparseTable(Table):
    """A matrix in SciPy's CSR format; `names` where it was a data frame."""

    any_width = True

    def __init__(self, kind: str, matrix: Any, names: tuple[str, ...] | None = None) -> None:
        self.kind, self.names = kind, names
        self.n_rows, self.n_columns = matrix.shape
        self._indptr, self._indices, self._data = matrix.indptr, matrix.indices, matrix.data
        _refuse_type(self._data.dtype, f"{kind} has")
        sizes = np.diff(self._indptr)
        if len(self._indptr) != self.n_rows + 1 or (len(sizes) and sizes.min() < 0):
            raise _malformed(kind, "its row pointers decrease")
        stop = int(self._indptr[-1])
        if self._indptr[0] != 0 or stop > min(len(self._indices), len(self._data)):
            raise _malformed(kind, "its row pointers are not of its entries")

    def stop_of(self, start: int, most_rows: int, most_entries: int) -> int:
        """Return where a piece ends that begins at `start`."""
        ends = self._indptr[start + 1 : start + most_rows + 1]
        n = int(np.searchsorted(ends, int(self._indptr[start]) + most_entries, "right"))
        return start + max(n, 1)

    def n_entries(self, start: int, stop: int) -> int:
        """Return how many entries rows have."""
        return int(self._indptr[stop]) - int(self._indptr[start])

    def put(self, start: int, stop: int, base: int, out: Entries) -> None:
        """Write rows start..stop-1."""
        first, last = int(self._indptr[start]), int(self._indptr[stop])
        columns, data = self._indices[first:last], self._data[first:last]
        if len(columns) and not 0 <= columns.min() <= columns.max() < self.n_columns:
            p = first + int(np.flatnonzero((columns < 0) | (columns >= self.n_columns))[0])
            raise InputError(
                f"row {self._row_of(p)}: column {self._indices[p]} is none of the "
                f"{self.n_columns} there are",
                "number columns from 0",
            )
        k = _inexact(data)
        if k is not None:
            p = first + k
            raise _no_float(self.cell(self._row_of(p), int(self._indices[p])), self._data[p])
        np.subtract(self._indptr[start : stop + 1], first, out=out.indptr)
        np.add(columns, columns.dtype.type(base), out=out.indices, casting="unsafe")
        np.copyto(out.values, data, casting="unsafe")

    def column_of(self, row: int, place: int) -> int:
        """Return the column of an entry of a row."""
        return int(self._indices[int(self._indptr[row]) + place])

    def _row_of(self, p: int) -> int:
        return int(np.searchsorted(self._indptr, p, "right")) - 1


class DenseTable(Table):
    """Columns of numbers; those of an array are the array's."""

    def __init__(
        self, kind: str, columns: Any, n_rows: int, names: tuple[str, ...] | None = None
    ) -> None:
        self.kind, self.names, self._columns, self.n_rows = kind, names, columns, n_rows
        self._is_array = isinstance(columns, np.ndarray)
        self.n_columns = columns.shape[1] if self._is_array else len(columns)
        for j, column in enumerate([columns] if self._is_array else columns):
            what = f"{kind} has" if self._is_array else f"{self.column(j)} has"
            _refuse_type(column.dtype, what)

    def stop_of(self, start: int, most_rows: int, most_entries: int) -> int:
        """Return where a piece ends that begins at `start`."""
        n = min(most_rows, most_entries // max(self.n_columns, 1))
        return min(start + max(n, 1), self.n_rows)

    def n_entries(self, start: int, stop: int) -> int:
        """Return how many entries rows have: all of their columns."""
        return (stop - start) * self.n_columns

    def put(self, start: int, stop: int, base: int, out: Entries) -> None:
        """Write rows start..stop-1."""
        shape = stop - start, self.n_columns
        out.indptr[:] = np.arange(shape[0] + 1) * self.n_columns
        numbers = np.arange(base, base + self.n_columns, dtype=np.int64).astype(np.uint32)
        out.indices.reshape(shape)[:] = numbers
        table = out.values.reshape(shape)
        if self._is_array:
            self._put(self._columns[start:stop], table, start, 0)
        else:
            for j, column in enumerate(self._columns):
                self._put(column[start:stop, None], table[:, j : j + 1], start, j)

    def _put(
        self, part: NDArray[Any], out: NDArray[np.float64], first_row: int, first_column: int
    ) -> None:
        """Write some columns of some rows."""

        def cell(k: int) -> str:
            row, column = divmod(k, part.shape[1])
            return self.cell(first_row + row, first_column + column)

        if part.dtype == object:
            for k, value in enumerate(part.ravel().tolist()):
                out[divmod(k, part.shape[1])] = _float_of(value, cell, k)
            return
        inexact = _inexact(part)
        if inexact is not None:
            raise _no_float(cell(inexact), part.ravel()[inexact])
        with np.errstate(over="ignore"):  # what a long double holds may be inf, which is refused
            np.copyto(out, part, casting="unsafe")

    def column_of(self, row: int, place: int) -> int:
        """Return the column of an entry of a row."""
        return place


def _malformed(kind: str, problem: str) -> InputError:
    return InputError(f"{kind}: {problem}", "make the matrix again: SciPy refuses such ones, too")


def _refuse_type(dtype: Any, what: str) -> None:
    """Refuse what is no type of numbers; of objects each is looked at."""
    if dtype.kind not in "biufO":
        raise InputError(f"{what} values of type {dtype}, which are not numbers", _NUMBERS_ONLY)


def _inexact(part: NDArray[Any]) -> int | None:
    """Return the place of the first integer that no float64 is equal to, if there is one."""
    if part.dtype.kind not in "iu" or part.dtype.itemsize < 8 or not part.size:
        return None
    if int(part.max()) <= MOST_EXACT and int(part.min()) >= -MOST_EXACT:
        return None
    flat = part.ravel()
    large = flat > MOST_EXACT
    if part.dtype.kind == "i":
        large |= flat < -MOST_EXACT
    found = (k for k in np.flatnonzero(large).tolist() if int(float(flat[k])) != int(flat[k]))
    return next(found, None)


def _no_float(cell: str, value: Any) -> InputError:
    return InputError(
        f"{cell}: {value} is beyond 2**53, and has no float64 of its own",
        "leave the column out if it is an identifier; else make float64 of it, which rounds",
    )


def _float_of(value: Any, cell: Any, k: int) -> float:
    """Return a Python object as a number."""
    if isinstance(value, (str, bytes)) or value is None:
        shown = "missing (None)" if value is None else f"text, {quoted(value)}"
        raise InputError(f"{cell(k)}: the value is {shown}, not a number", _NUMBERS_ONLY)
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    except (TypeError, ValueError) as error:
        what = f"{cell(k)}: a {type(value).__name__} is not a number"
        raise InputError(what, _NUMBERS_ONLY) from error
    whole = isinstance(value, Decimal) and value.as_tuple().exponent == 0
    whole = whole or isinstance(value, numbers.Integral)
    if whole and np.isfinite(number) and int(number) != value:
        raise _no_float(cell(k), value)
    return number


def as_table(X: Any) -> Table:
    """Return a batch as a table.

    InputError is raised if it has no two dimensions, or has other things than numbers.

    Parameters
    ----------
    X : scipy sparse matrix or array, array_like, data frame, pyarrow Table or RecordBatch
        Rows of numbers; or whatever has a data frame's Arrow interface, which takes pyarrow.
    """
    if isinstance(X, Table):
        return X
    from scipy.sparse import issparse  # takes a while, and tables do without

    pandas = sys.modules.get("pandas")
    if issparse(X):
        return _of_scipy(X)
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return _of_pandas(X)
    if hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
        if importlib.util.find_spec("pyarrow") is not None:
            return _of_arrow(X)
        if hasattr(X, "get_columns"):
            return _of_polars(X)
    if hasattr(X, "__dataframe__") and not hasattr(X, "__array__"):
        return _of_arrow(X)
    return _of_array(X)


def _of_scipy(X: Any) -> Table:
    kind = type(X).__name__
    if len(X.shape) != 2:
        raise _not_two_dimensional(kind, X.shape)
    if X.format != "csr":  # of which what is wrong is named by its row
        check_sparse(X)
    rows = X.tocsr()
    if X.format == "coo" and rows.nnz != X.nnz:  # SciPy has added them up
        rows = _with_repeated(X)
    return SparseTable(kind, rows)


def _with_repeated(X: Any) -> Any:
    """Return the rows of a COO matrix, entries of one place side by side as they come."""
    from scipy.sparse import csr_array

    order = np.lexsort((X.col, X.row))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(X.row, minlength=X.shape[0]))))
    return csr_array((X.data[order], X.col[order], indptr), shape=X.shape)


def _not_two_dimensional(kind: str, shape: tuple[int, ...]) -> InputError:
    return InputError(f"{kind} of shape {tuple(shape)}", "give it two dimensions: rows, features")


def _of_array(X: Any) -> Table:
    kind = "array" if isinstance(X, np.ndarray) else type(X).__name__
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        row, column = np.argwhere(np.ma.getmaskarray(X))[0][:2].tolist()
        raise InputError(f"row {row}, column {column}: the value is masked", "impute a number")
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InputError(f"{kind}: its rows differ in length", "give all the same") from error
    if array.ndim != 2:
        raise _not_two_dimensional(kind, array.shape)
    return DenseTable(kind, array, len(array))


def _names(names: Sequence[Any]) -> tuple[str, ...] | None:
    """Return the names of columns, if all have one: numbers of columns are none."""
    return tuple(map(str, names)) if names and all(isinstance(n, str) for n in names) else None


def _refused_column(name: Any, kind: Any, more: str = "which is none of numbers") -> InputError:
    return InputError(f"column {quoted_name(str(name))} is of type {kind}, {more}", _NUMBERS_ONLY)


def _missing(name: Any, row: int) -> InputError:
    return InputError(
        f"row {row}, column {quoted_name(str(name))}: the value is missing",
        "impute a number, or leave the row out",
    )


def _of_pandas(X: Any) -> Table:
    import pandas as pd

    kind, names = "pandas.DataFrame", _names(list(X.columns))
    sparse = [
        isinstance(t, pd.SparseDtype) and t.subtype.kind != "O" and t.fill_value == 0
        for t in X.dtypes
    ]
    if any(sparse):
        return SparseTable(kind, _sparse_columns(X, sparse), names)
    columns = [_pandas_column(name, X.iloc[:, j]) for j, name in enumerate(X.columns)]
    return DenseTable(kind, columns, len(X), names)


def _pandas_column(name: Any, column: Any) -> NDArray[Any]:
    import pandas as pd

    kind = column.dtype
    if isinstance(kind, pd.SparseDtype):
        return np.asarray(column.sparse.to_dense())
    if not isinstance(kind, np.dtype):
        if not (pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind)):
            raise _refused_column(name, kind)
        missing = column.isna().to_numpy()
        if missing.any():
            raise _missing(name, int(np.flatnonzero(missing)[0]))
        return np.asarray(column.to_numpy(dtype=getattr(kind, "numpy_dtype", object)))
    if kind.kind not in "biufO":
        raise _refused_column(name, kind)
    return np.asarray(column.to_numpy())


def _sparse_columns(X: Any, sparse: Sequence[bool]) -> Any:
    """Return a data frame of sparse columns, and others, as a CSR matrix."""
    from scipy.sparse import csc_array

    places, values = [], []
    for (name, column), is_sparse in zip(X.items(), sparse, strict=True):
        if is_sparse:
            place = column.array.sp_index.to_int_index().indices
            found = np.asarray(column.array.sp_values)
            inexact = _inexact(found)  # now: of several types one is made
            if inexact is not None:
                cell = f"row {place[inexact]}, column {quoted_name(str(name))}"
                raise _no_float(cell, found[inexact])
        else:
            dense = DenseTable("", [_pandas_column(name, column)], len(X), (str(name),))
            found = np.empty(len(X))
            n, ends = len(X), np.empty(len(X) + 1, np.int64)
            dense.put(0, n, 0, Entries(ends, np.empty(n, np.uint32), found))
            place = np.flatnonzero(found != 0)
            found = found[place]
        places.append(place)
        values.append(found)
    ends = np.cumsum([0, *map(len, places)])
    return csc_array((np.concatenate(values), np.concatenate(places), ends), shape=X.shape).tocsr()


def _of_polars(X: Any) -> Table:
    columns = []
    for series in X.get_columns():
        if not (series.dtype.is_numeric() or str(series.dtype) == "Boolean"):
            raise _refused_column(series.name, series.dtype)
        if series.null_count():
            raise _missing(series.name, int(np.flatnonzero(series.is_null().to_numpy())[0]))
        if "128" in str(series.dtype):
            raise _refused_column(series.name, series.dtype, "which NumPy does not have")
        columns.append(np.asarray(series.to_numpy()))
    return DenseTable("polars.DataFrame", columns, len(X), _names(X.columns))


def _of_arrow(X: Any) -> Table:
    kind = f"{type(X).__module__.split('.')[0]}.{type(X).__name__}"
    try:
        import pyarrow as pa
    except ImportError as error:
        raise InputError(f"{kind}: reading it takes pyarrow", "pip install pyarrow") from error
    try:
        if isinstance(X, pa.Table):
            table = X
        elif hasattr(X, "__arrow_c_stream__"):
            table = pa.table(X)
        elif hasattr(X, "__arrow_c_array__"):
            table = pa.Table.from_batches([pa.record_batch(X)])
        else:
            from pyarrow.interchange import from_dataframe

            table = from_dataframe(X)
    except pa.ArrowException as error:  # one column alone, or types that pyarrow does not know
        raise InputError(
            f"{kind} is no table that pyarrow can read: {error}",
            "give rows and columns, of numbers of up to 64 bits",
        ) from error
    is_number, columns = pa.types, []
    for name, column in zip(table.column_names, table.columns, strict=True):
        t = column.type
        if not (
            is_number.is_integer(t) or is_number.is_floating(t) or is_number.is_boolean(t)
            or is_number.is_decimal(t)
        ):  # fmt: skip
            raise _refused_column(name, t)
        if column.null_count:
            missing = np.concatenate([np.asarray(c.is_null()) for c in column.chunks])
            raise _missing(name, int(np.flatnonzero(missing)[0]))
        parts = [chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks]
        columns.append(parts[0] if len(parts) == 1 else np.concatenate(parts or [np.empty(0)]))
    return DenseTable(kind, columns, table.num_rows, _names(table.column_names))
