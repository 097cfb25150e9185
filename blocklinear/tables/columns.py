"""What a column of a table puts into each row: one feature, or as many as a list has words."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.text import columns as column_kernels
from blocklinear.kernels.text import hashes as kernels
from blocklinear.tables import hashing

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Codes = NDArray[np.int32]


def row_of(indptr: Integers | None, place: int) -> int:
    """Return the row of a value; see `Entries.indptr`."""
    return place if indptr is None else int(np.searchsorted(indptr, place, "right")) - 1


class Entries(ABC):
    """Entries of rows.

    Attributes
    ----------
    indptr : int64[n_rows + 1] or None      of lists, where there are any: row i has the values
                              from ``indptr[i]`` on; None if each row has one value
    """

    indptr: Integers | None = None

    @abstractmethod
    def put(
        self, start: int, stop: int, base: int, k: int, indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Write the features of values start..stop-1.

        Parameters
        ----------
        start, stop : int
        base : int
            Number of the first feature.
        k : int
            Which column to write.
        indices, values : uint32[stop - start, m], float64[stop - start, m]
        """


class Hashable(Entries):
    """Entries that can be crossed with others."""

    @abstractmethod
    def hashes(self, start: int, stop: int) -> hashing.Hashes:
        """Return the hashes of values start..stop-1."""

    def factors(self, start: int, stop: int) -> Floats | float:
        """Return what the value of a cross is multiplied by."""
        return 1.0


class Numbers(Hashable):
    """A feature of the value of each row, or one that it is missing.

    Parameters
    ----------
    values : float64[n_rows]
    missing : int64[any]      rows without a value
    feature, if_missing : int
    seed : uint64             of the column
    """

    def __init__(
        self, values: Floats, missing: Integers, feature: int, if_missing: int, seed: np.uint64
    ) -> None:
        self._values, self._missing = values, missing
        self._feature, self._if_missing, self._seed = feature, if_missing, seed

    def hashes(self, start: int, stop: int) -> hashing.Hashes:
        """Return that of the column."""
        return np.full(stop - start, self._seed, np.uint64)

    def factors(self, start: int, stop: int) -> Floats | float:
        """Return the values."""
        return self._values[start:stop]

    def put(
        self, start: int, stop: int, base: int, k: int, indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Write the features of rows."""
        first, last = np.searchsorted(self._missing, (start, stop))
        column_kernels.put_numbers(
            self._values[start:stop], self._missing[first:last] - start, self._feature + base,
            self._if_missing + base, k, indices, values,
        )  # fmt: skip


class Hashed(Hashable):
    """Values that are features by their hashes.

    Parameters
    ----------
    strings : pyarrow Array
    indptr : int64[n_rows + 1] or None
    seed : uint64             of the column
    missing : str             what missing values are hashed as
    bits, first : int         how many bits of a hash count, and the feature of the hash 0
    """

    def __init__(
        self,
        strings: Any,
        indptr: Integers | None,
        seed: np.uint64,
        missing: str,
        bits: int,
        first: int,
    ) -> None:
        self.indptr = indptr
        self._strings, self._seed, self._text_if_missing = strings, seed, missing
        self._mask, self._first = np.uint64((1 << bits) - 1), first

    def hashes(self, start: int, stop: int) -> hashing.Hashes:
        """Return the hashes of values."""
        strings = self._strings.slice(start, stop - start)
        return hashing.hash_strings(strings, self._seed, self._text_if_missing)

    def put(
        self, start: int, stop: int, base: int, k: int, indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Write the features of values."""
        hashes = self.hashes(start, stop)
        kernels.put_features(hashes, self._mask, self._first + base, k, indices, values)


class HashedCodes(Hashable):
    """Values of a dictionary that are features by their hashes.

    Parameters
    ----------
    hashes : uint64[m]        of the values of the dictionary
    codes : int32[any]        which of them each value is
    indptr : int64[n_rows + 1] or None
    bits, first : int         as for `Hashed`
    """

    def __init__(
        self,
        hashes: hashing.Hashes,
        codes: Codes,
        indptr: Integers | None,
        bits: int,
        first: int,
    ) -> None:
        self.indptr = indptr
        self._hashes, self._codes = hashes, codes
        self._mask, self._first = np.uint64((1 << bits) - 1), first

    def hashes(self, start: int, stop: int) -> hashing.Hashes:
        """Return the hashes of values."""
        found: hashing.Hashes = self._hashes[self._codes[start:stop]]
        return found

    def put(
        self, start: int, stop: int, base: int, k: int, indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Write the features of values."""
        kernels.put_coded_features(
            self._hashes, self._codes[start:stop], self._mask, self._first + base, k, indices,
            values,
        )  # fmt: skip


class Listed(Entries):
    """Values that are features by the dictionary of the recipe.

    Parameters
    ----------
    features : int64[m]       of the values that codes stand for, -1 for none
    codes : int32[any]        which of them each value is
    indptr : int64[n_rows + 1] or None
    """

    def __init__(self, features: Integers, codes: Codes, indptr: Integers | None) -> None:
        self.indptr = indptr
        self._features, self.codes = features, codes

    def put(
        self, start: int, stop: int, base: int, k: int, indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Write the features of values; those that have none are 0."""
        features = self._features[self.codes[start:stop]]
        indices[:, k] = np.maximum(features, 0) + base
        values[:, k] = features >= 0


class Cross(Entries):
    """Pairs of values, features by their hashes.

    Parameters
    ----------
    one, other : Hashable
    seed : uint64             of the cross
    bits, first : int         as for `Hashed`
    """

    def __init__(
        self, one: Hashable, other: Hashable, seed: np.uint64, bits: int, first: int
    ) -> None:
        self._one, self._other, self._seed = one, other, seed
        self._mask, self._first = np.uint64((1 << bits) - 1), first

    def put(
        self, start: int, stop: int, base: int, k: int, indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Write the features of pairs."""
        pair = self._one.hashes(start, stop), self._other.hashes(start, stop)
        hashes = hashing.cross(self._seed, *pair)
        kernels.put_features(hashes, self._mask, self._first + base, k, indices, values)
        values[:, k] *= self._one.factors(start, stop)
        values[:, k] *= self._other.factors(start, stop)
