"""Rows of LIBSVM text in memory, as the tokenizer leaves them."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.shared import RAW
from blocklinear.kernels.text import scan, tokenizer
from blocklinear.kernels.text.reshape import hash_indices
from blocklinear.pages import Pages
from blocklinear.text import norms, reshape
from blocklinear.text.faults import (
    Faults,
    no_faults,
    refused_rows,
    row_too_large,
    unmergeable,
)
from blocklinear.text.reshape import Merged, Reshaping

_QID = re.compile(rb"(?m)^([ \t]*[^ \t\r\n#]+[ \t]+)(qid:[0-9]+)(?=[ \t\r\n#])")


@dataclass(frozen=True)
class Decimals:
    """Numbers as written: ``mantissa / 10**exponent``, or a double where exponent is `RAW`."""

    mantissa: NDArray[np.int64]  # int64[n]
    # uint8[n]: 0..22 or `RAW` (then `mantissa` holds the double's bits)
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
        scan.to_doubles(self.mantissa, self.exponent, out)
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
            self.exponent[k] = RAW


@dataclass(frozen=True)
class Rows:
    """A run of consecutive rows."""

    indptr: NDArray[np.int64]  # int64[n_rows + 1]
    # uint32[nnz]: as written in the text, or hashed; strictly increasing in each row. Where
    # `missing` is not None they are those of a store, in any order
    indices: NDArray[np.uint32]
    decimals: Decimals  # nnz values
    label_decimals: Decimals  # n_rows labels
    # largest index seen, explicit zeros included; index base - 1 if none; the largest hash there
    # can be, if indices are hashed
    max_index: int
    n_lines: int = 0  # lines read
    n_blank: int = 0  # blank or comment lines
    n_zeros: int = 0  # zeros dropped: explicit ones and sums
    n_sorted: int = 0  # rows that were sorted
    n_merged: int = 0  # entries added to another one of their index
    n_collisions: int = 0  # entries added to another one of their hash
    n_qids: int = 0  # query numbers that were ignored
    # smallest index that was dropped as zero, 2**32 if none; where `missing` is not None, smallest
    # index seen
    least_zero: int = 1 << 32
    # refused lines, in order; none once `RowReader` has reported them
    faults: Faults = field(default_factory=no_faults)
    weights: NDArray[np.float64] | None = None  # float64[n_rows], where rows have any
    # uint32[k]: positions of indices that are still as written, since the store had no number for
    # them; None if all of them are as written
    missing: NDArray[np.uint32] | None = None

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
        if self.missing is not None:
            return self.least_zero
        return min(self.least_zero, int(self.indices.min())) if self.nnz else self.least_zero

    def values(self) -> NDArray[np.float64]:
        """Return the exact values, float64[nnz]."""
        return self.decimals.to_doubles()

    def labels(self) -> NDArray[np.float64]:
        """Return the labels, float64[n_rows]."""
        return self.label_decimals.to_doubles()


_AS_WRITTEN = Reshaping()


class ParseBuffers:
    """Memory that `parse` leaves rows in, to be used again: the system clears fresh memory."""

    def __init__(self) -> None:
        self._pages = Pages(0)

    def take(
        self, n_lines: int, n_colons: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32], Decimals, Decimals]:
        """Return row pointers, indices, values and labels for so many lines and entries."""
        needed = rows_bytes(n_lines, n_colons)
        if len(self._pages.array) < needed:
            self._pages = Pages(needed + needed // 8)
        lengths = (n_lines + 1, n_lines, n_colons, n_colons, n_colons, n_lines)
        widths, at, parts = (8, 8, 8, 4, 1, 1), 0, []
        for length, width in zip(lengths, widths, strict=True):
            parts.append(self._pages.array[at : at + width * length])
            at += width * length
        labels = Decimals(parts[1].view(np.int64), parts[5])
        values = Decimals(parts[2].view(np.int64), parts[4])
        return parts[0].view(np.int64), parts[3].view(np.uint32), values, labels

    def discard(self) -> None:
        """Give the memory back to the system: the rows in it are no more."""
        self._pages.discard()


def rows_bytes(n_lines: int, n_colons: int) -> int:
    """Return the bytes of the rows of so many lines and entries, as `parse` leaves them."""
    return 8 + 17 * n_lines + 13 * n_colons


def parse(
    text: NDArray[np.uint8],
    index_base: int,
    max_faults: int = 1,
    reshaping: Reshaping = _AS_WRITTEN,
    buffers: ParseBuffers | None = None,
) -> Rows:
    """Read whole lines.

    Parameters
    ----------
    text : uint8[n + 1]       lines that end in a newline, and one more newline as a guard
    index_base : int          smallest index allowed
    max_faults : int          stop after so many refused lines
    reshaping : Reshaping     what is done to rows that are not as a store keeps them
    buffers : ParseBuffers or None      where the rows may lie; they are valid until it is used
                              again
    """
    n_qids = _blank_qids(text) if reshaping.ignore_qid else 0
    rows = _parse(text, index_base, max_faults, reshaping, buffers)
    decimals = rows.decimals
    bad = norms.too_large(rows.indptr, decimals.mantissa, decimals.exponent, reshaping.dtype)
    if len(bad):
        limit = norms.LIMITS[reshaping.dtype]
        why = partial(row_too_large, reshaping.dtype, limit, reshaping.hash_bits > 0)
        refused = {fault.line for fault in rows.faults}
        found = refused_rows(text, dict.fromkeys(bad.tolist(), why), refused)
        text = _without_lines(text, [fault.line for fault in found])
        rows = _parse(text, index_base, max_faults, reshaping, buffers)
        rows = replace(rows, n_blank=rows.n_blank - len(found), faults=rows.faults.plus(found))
    return replace(rows, n_qids=n_qids) if n_qids else rows


def _parse(
    text: NDArray[np.uint8],
    index_base: int,
    max_faults: int,
    reshaping: Reshaping,
    buffers: ParseBuffers | None,
) -> Rows:
    """Read whole lines without query numbers; rows may be too large."""
    n_lines, n_colons = scan.count_marks(text)
    indptr, indices, decimals, labels = (buffers or ParseBuffers()).take(n_lines, n_colons)
    faults = np.zeros((min(max_faults, n_lines), 3), np.int64)
    found = tokenizer.parse_lines(
        text, index_base, reshaping.lenient, indptr, indices,
        decimals.mantissa, decimals.exponent, labels.mantissa, labels.exponent, faults,
    )  # fmt: skip
    n_rows, nnz, n_lines, n_blank, n_zeros, n_slow, n_faults, largest, least = map(int, found)
    rows = Rows(
        indptr[: n_rows + 1],
        indices[:nnz],
        decimals[:nnz],
        labels[:n_rows],
        max_index=max(largest, index_base - 1),
        n_lines=n_lines,
        n_blank=n_blank,
        n_zeros=n_zeros,
        least_zero=least,
        faults=Faults(text, faults[:n_faults]),
    )
    if n_slow:
        rows.decimals.resolve(text)
        rows.label_decimals.resolve(text)
    if reshaping.lenient != tokenizer.STRICT:
        rows = in_order(rows, index_base, reshaping.merge, partial(_refused, text))
    elif n_slow:
        rows = _without_underflows(rows)
    if reshaping.hash_bits:
        rows = hashed(rows, reshaping.hash_bits, partial(_refused, text))
    return rows


def _blank_qids(text: NDArray[np.uint8]) -> int:
    """Blank out the ``qid:N`` that follow labels, in place; return how many there were."""
    n_qids = 0
    for found in _QID.finditer(text.data):
        text[found.start(2) : found.end(2)] = 32
        n_qids += 1
    return n_qids


def _without_lines(text: NDArray[np.uint8], lines: list[int]) -> NDArray[np.uint8]:
    """Return text with blanks in place of some lines, by their 0-based numbers."""
    ends = np.flatnonzero(text == 10)
    blanked = text.copy()
    for line in lines:
        blanked[int(ends[line - 1]) + 1 if line else 0 : int(ends[line])] = 32
    return blanked


def _without_underflows(rows: Rows) -> Rows:
    """Drop the values that were not written as zero, but are."""
    decimals = rows.decimals
    gone = np.flatnonzero((decimals.exponent == RAW) & (decimals.double == 0.0))
    if not len(gone):
        return rows
    least = min(rows.least_zero, int(rows.indices[gone].min()))
    merged = reshape.merge(rows.indptr, rows.indices, decimals.mantissa, decimals.exponent, True)
    nnz = int(rows.indptr[-1])
    return replace(
        rows,
        indices=rows.indices[:nnz],
        decimals=decimals[:nnz],
        n_zeros=rows.n_zeros + int(merged.zeros.sum()),
        least_zero=least,
    )


Refuse = Callable[[Faults, Merged, bool], Faults]
"""Tells why rows that were merged are refused, whether they were hashed, next to earlier faults."""


def in_order(rows: Rows, index_base: int, merging: bool, refuse: Refuse) -> Rows:
    """Sort and merge rows, which still have their zeros; refuse those that may not be merged."""
    arrays = rows.indptr, rows.indices, rows.decimals.mantissa, rows.decimals.exponent
    unsorted = reshape.sort(*arrays)
    held = np.diff(rows.indptr) > 0
    first, last = rows.indices[rows.indptr[:-1][held]], rows.indices[rows.indptr[1:][held] - 1]
    merged = reshape.merge(*arrays, merging)
    good = merged.why == 0
    first, last = first[good[held]], last[good[held]]  # of rows that have entries, zeros included
    return replace(
        _kept(rows, merged, False, refuse),
        max_index=int(last.max()) if len(last) else index_base - 1,
        least_zero=int(first.min()) if len(first) else 1 << 32,
        n_zeros=int(merged.zeros.sum()),
        n_sorted=int(np.count_nonzero(unsorted[good])),
        n_merged=int(merged.entries.sum()),
    )


def hashed(rows: Rows, bits: int, refuse: Refuse) -> Rows:
    """Replace indices by their hashes, and add up what collides."""
    arrays = rows.indptr, rows.indices, rows.decimals.mantissa, rows.decimals.exponent
    hash_indices(rows.indices, bits)
    reshape.sort(*arrays)
    merged = reshape.merge(*arrays, True)
    return replace(
        _kept(rows, merged, True, refuse),
        max_index=(1 << bits) - 1,
        n_zeros=rows.n_zeros + int(merged.zeros.sum()),
        n_collisions=int(merged.entries.sum()),
    )


def _kept(rows: Rows, merged: Merged, hashed: bool, refuse: Refuse) -> Rows:
    """Return rows whose arrays were merged in place, without those that were refused."""
    indptr, labels, nnz = rows.indptr, rows.label_decimals, int(rows.indptr[-1])
    faults = rows.faults
    if merged.why.any():
        good = merged.why == 0
        indptr = np.concatenate(([0], np.cumsum(np.diff(indptr)[good])))
        labels = Decimals(labels.mantissa[good], labels.exponent[good])
        faults = refuse(faults, merged, hashed)
    return replace(
        rows,
        indptr=indptr,
        indices=rows.indices[:nnz],
        decimals=rows.decimals[:nnz],
        label_decimals=labels,
        faults=faults,
    )


def _refused(text: NDArray[np.uint8], faults: Faults, merged: Merged, hashed: bool) -> Faults:
    """Find the lines of rows that cannot be merged."""
    wanted = {
        int(i): partial(unmergeable, int(merged.why[i]), int(merged.index[i]), hashed)
        for i in np.flatnonzero(merged.why)
    }
    return faults.plus(refused_rows(text, wanted, {fault.line for fault in faults}))
