"""Rows that were not written as a store keeps them: sorted, merged, hashed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.blocks.features import sort_rows
from blocklinear.kernels.text import tokenizer
from blocklinear.kernels.text.reshape import merge_rows

SORT_BYTES = 17
"""What sorting a row takes in memory, an entry."""


@dataclass(frozen=True)
class Reshaping:
    """What is done to rows besides reading them."""

    sort: bool = False  # sort the indices of a row that are not increasing
    merge: bool = False  # add up the values of an index that is repeated in a row
    hash_bits: int = 0  # replace indices by hashes of so many bits; 0 for none
    ignore_qid: bool = False  # skip ``qid:N`` after a label
    dtype: str = "float64"  # what values are to be rounded to: rows must not be too large for it

    @property
    def lenient(self) -> int:
        """What the tokenizer lets pass."""
        if self.sort:
            return tokenizer.ANY_ORDER
        return tokenizer.REPEATS if self.merge else tokenizer.STRICT


@dataclass(frozen=True)
class Merged:
    """What `merge` did."""

    entries: NDArray[np.int64]  # int64[n_rows]: entries that were added to another
    # int64[n_rows]: entries that were dropped as they are zero, or add up to it
    zeros: NDArray[np.int64]
    # uint8[n_rows]: `REPEATED` or `TOO_LARGE` for refused rows, which are left empty
    why: NDArray[np.uint8]
    index: NDArray[np.uint32]  # uint32[n_rows]: where that happened


def sort(
    indptr: NDArray[np.int64],
    indices: NDArray[np.uint32],
    mantissa: NDArray[np.int64],
    exponent: NDArray[np.uint8],
) -> NDArray[np.uint8]:
    """Sort each row by index in place, equal ones as they come; return which were unsorted."""
    unsorted = np.zeros(len(indptr) - 1, np.uint8)
    sort_rows(np.diff(indptr), indices, mantissa, exponent, unsorted)
    return unsorted


def merge(
    indptr: NDArray[np.int64],
    indices: NDArray[np.uint32],
    mantissa: NDArray[np.int64],
    exponent: NDArray[np.uint8],
    allowed: bool,
) -> Merged:
    """Make the indices of each sorted row differ, in place; see `merge_rows`."""
    n = len(indptr) - 1
    done = Merged(
        np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.uint8), np.zeros(n, np.uint32)
    )
    merge_rows(
        indptr, indices, mantissa, exponent, allowed,
        done.entries, done.zeros, done.why, done.index,
    )  # fmt: skip
    return done
