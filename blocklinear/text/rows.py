"""Rows of LIBSVM text in memory, as the tokenizer leaves them."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from blocklinear.text import reshape, tokenizer
from blocklinear.text.faults import Fault, rows_at_fault
from blocklinear.text.reshape import Merged, Reshaping

_POWERS = np.array([10.0**k for k in range(23)])


@dataclass(frozen=True)
class Decimals:
    """Numbers as written: ``mantissa / 10**exponent``, or a double where exponent is `RAW`.

    Attributes
    ----------
    mantissa : int64[n]
    exponent : uint8[n]       0..22 or `tokenizer.RAW` (then `mantissa` holds the double's bits)
    """

    mantissa: NDArray[np.int64]
    exponent: NDArray[np.uint8]

    @classmethod
    def empty(cls, n: int) -> "Decimals":
        """Return room for `n` numbers."""
        return cls(np.empty(n, np.int64), np.empty(n, np.uint8))

    @cached_property
    def double(self) -> NDArray[np.float64]:
        """The bits of `mantissa` read as float64 (a view)."""
        return self.mantissa.view(np.float64)

    def to_doubles(self) -> NDArray[np.float64]:
        """Return the exact values, float64[n]."""
        out = np.empty(len(self.mantissa))
        tokenizer.to_doubles(self.mantissa, self.double, self.exponent, _POWERS, out)
        return out

    def __getitem__(self, part: slice) -> "Decimals":
        return Decimals(self.mantissa[part], self.exponent[part])

    def resolve(self, text: NDArray[np.uint8]) -> None:
        """Replace every `SLOW` number, an offset into `text`, by the double Python reads there."""
        for k in np.flatnonzero(self.exponent == tokenizer.SLOW):
            start = int(self.mantissa[k])
            token = text[start : start + 4096].tobytes().split(None, 1)[0]
            if len(token) == 4096:  # a monster: take the whole of it
                token = text[start:].tobytes().split(None, 1)[0]
            self.double[k] = float(token.split(b"#", 1)[0]) + 0.0  # -0.0 becomes 0.0
            self.exponent[k] = tokenizer.RAW


@dataclass(frozen=True)
class Rows:
    """A run of consecutive rows.

    Attributes
    ----------
    indptr : int64[n_rows + 1]
    indices : uint32[nnz]     as written in the text, or hashed; strictly increasing in each row
    decimals : Decimals       nnz values
    label_decimals : Decimals n_rows labels
    max_index : int           largest index seen, explicit zeros included; index base - 1 if none;
                              the largest hash there can be, if indices are hashed
    n_lines, n_blank, n_zeros : int     lines read, blank or comment lines, zeros dropped: explicit
                              ones and sums
    n_sorted, n_merged, n_collisions : int      rows that were sorted, entries added to another one
                              of their index, entries added to another one of their hash
    least_zero : int          smallest index that was dropped as zero, 2**32 if none
    faults : tuple[Fault, ...]          refused lines, in order
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.uint32]
    decimals: Decimals
    label_decimals: Decimals
    max_index: int
    n_lines: int = 0
    n_blank: int = 0
    n_zeros: int = 0
    n_sorted: int = 0
    n_merged: int = 0
    n_collisions: int = 0
    least_zero: int = 1 << 32
    faults: tuple[Fault, ...] = field(default=())

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return len(self.indices)

    @property
    def min_index(self) -> int:
        """Smallest index seen, explicit zeros included; 2**32 if there is none."""
        first = self.indices[self.indptr[:-1][np.diff(self.indptr) > 0]]
        return min(self.least_zero, int(first.min(initial=(1 << 32) - 1) if len(first) else 1 << 32))

    def values(self) -> NDArray[np.float64]:
        """Return the exact values, float64[nnz]."""
        return self.decimals.to_doubles()

    def labels(self) -> NDArray[np.float64]:
        """Return the labels, float64[n_rows]."""
        return self.label_decimals.to_doubles()


def parse(text: NDArray[np.uint8], index_base: int, max_faults: int = 1) -> Rows:
    """Read whole lines.

    Parameters
    ----------
    text : uint8[n + 1]
        Lines that end in a newline, and one more newline as a guard.
    index_base : int
        Smallest index allowed.
    max_faults : int
        Stop after so many refused lines.
    """
    n_lines, n_colons = tokenizer.count_marks(text)
    indptr = np.empty(n_lines + 1, np.int64)
    indices = np.empty(n_colons, np.uint32)
    decimals, labels = Decimals.empty(n_colons), Decimals.empty(n_lines)
    faults = np.zeros((min(max_faults, n_lines), 3), np.int64)
    counts = np.zeros(tokenizer.N_COUNTS, np.int64)
    tokenizer.parse_lines(
        text, index_base, tokenizer.STRICT, indptr, indices,
        decimals.mantissa, decimals.double, decimals.exponent, labels.mantissa, labels.double,
        labels.exponent, faults, counts, tokenizer.POWERS, tokenizer.POWERS_HIGH,
        tokenizer.POWERS_LOW,
    )  # fmt: skip
    n_rows, nnz = counts[tokenizer.N_ROWS], counts[tokenizer.N_VALUES]
    indptr, indices = indptr[: n_rows + 1], indices[:nnz]
    decimals, labels = decimals[:nnz], labels[:n_rows]
    if counts[tokenizer.N_SLOW]:
        decimals.resolve(text)
        labels.resolve(text)
        kept = (decimals.exponent != tokenizer.RAW) | (decimals.double != 0.0)
        indptr = np.concatenate(([0], np.cumsum(kept)))[indptr]  # values that underflowed go
        indices = indices[kept]
        decimals = Decimals(decimals.mantissa[kept], decimals.exponent[kept])
    return Rows(
        indptr,
        indices,
        decimals,
        labels,
        max_index=max(int(counts[tokenizer.MAX_INDEX]), index_base - 1),
        n_lines=int(counts[tokenizer.N_LINES]),
        n_blank=int(counts[tokenizer.N_BLANK]),
        n_zeros=int(counts[tokenizer.N_ZEROS]) + int(nnz) - len(indices),
        faults=tuple(
            Fault.found(text, *map(int, fault)) for fault in faults[: counts[tokenizer.N_FAULTS]]
        ),
    )
