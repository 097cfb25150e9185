"""What the columns of a part of a table put into its rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.text import cells as kernels

Features = NDArray[np.uint32]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def row_of(indptr: Integers | None, place: int) -> int:
    """Return the row of a value: those of row i begin at ``indptr[i]``; None if each has one."""
    return place if indptr is None else int(np.searchsorted(indptr, place, "right")) - 1


class Cells:
    """The columns that put one feature into each row; features are counted from 0.

    Columns lie side by side, so that one kernel writes the rows of a piece: Python, whose lock
    threads wait for, has little to do.

    Parameters
    ----------
    n_valued : int            columns that may have other values than 1

    Attributes
    ----------
    features : uint32[n_columns, n_rows]
    values : float64[n_valued, n_rows]
    row_of_values : int64[n_columns]    which row of `values` is that of a column; -1 if all are 1
    """

    def __init__(self, n_columns: int, n_valued: int, n_rows: int) -> None:
        self.features = np.empty((n_columns, n_rows), np.uint32)
        self.values = np.empty((n_valued, n_rows))
        self.row_of_values = np.full(n_columns, -1)
        self._n_used = 0

    def values_of(self, k: int) -> Floats:
        """Return where the values of column `k` are to be written, float64[n_rows]."""
        self.row_of_values[k] = self._n_used
        self._n_used += 1
        row: Floats = self.values[self._n_used - 1]
        return row

    def put(
        self, start: int, stop: int, base: int, ends: Integers, indices: Features, values: Floats
    ) -> None:
        """Write rows start..stop-1, row i from the place ``ends[i - start]`` on.

        Parameters
        ----------
        base : int                number of the first feature
        ends : int64[stop - start + 1]
        indices, values : uint32[any], float64[any]
        """
        kernels.put_cells(
            self.features, self.values, self.row_of_values, start, base, ends[:-1], indices, values
        )


@dataclass(frozen=True)
class Words:
    """A column of lists, which puts a feature for each of its words into a row."""

    indptr: Integers  # int64[n_rows + 1]: row i has the words from ``indptr[i]`` on
    features: Features  # uint32[n_words]: counted from 0
    values: Floats  # float64[n_words], or float64[0] if all are 1

    def put(
        self, start: int, stop: int, base: int, at: Integers, indices: Features, values: Floats
    ) -> None:
        """Write the words of rows start..stop-1, those of row i from ``at[i - start]`` on.

        `at` is changed to where they end; the others are as for `Cells.put`.
        """
        kernels.put_words(
            self.features, self.values, self.indptr[start : stop + 1], base, at, indices, values
        )
