"""Weights of rows: a file with one number a line, LIBLINEAR's "weights for data instances"."""

import re
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputError, InputFormatError, quoted
from blocklinear.memory import format_size
from blocklinear.numerals import TOO_LARGE, counted
from blocklinear.options import TextOptions
from blocklinear.text.slabs import LongLine, Slab, slabs
from blocklinear.text.sources import Source

Floats = NDArray[np.float64]
PIECE_BYTES = 64 << 10
"""Read at a time, and no line may be longer."""
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_FIX = "write one number a line, one for each row, in their order"


class WeightReader:
    """Hand out the weights of rows, in order; blank lines do not count.

    InputFormatError is raised for the first line that is no weight: finite, not negative, below
    1e154; InputError if a compressed stream is cut or damaged, or there are not as many weights as
    rows; StorageError if the file cannot be read or changes meanwhile.

    Parameters
    ----------
    path : str                plain or gz, bz2, xz, zst; ``-`` is standard input
    options : TextOptions     what holds for any input holds for it

    Attributes
    ----------
    provenance : dict         after `finish`: path, size, mtime_ns, digest
    notes : list[str]         after `finish`: what is odd about the file, in a sentence each
    """

    def __init__(self, path: str, options: TextOptions) -> None:
        self._source = Source(path, options)
        self._path, self._whole = self._source.raw.path, options.require_final_newline
        self._pieces = slabs(self._source, PIECE_BYTES, PIECE_BYTES)
        self._lines = self._n_read = 0
        self._cut = False
        self._waiting = np.empty(0)
        self.provenance: dict[str, Any] = {}
        self.notes: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._source.raw.close()

    def take(self, n: int) -> Floats:
        """Return the next `n` weights, fewer only at the end of the file."""
        parts = [self._waiting]
        missing = n - len(self._waiting)
        while missing > 0 and (found := self._next_piece()) is not None:
            parts.append(found)
            missing -= len(found)
        weights = np.concatenate(parts)
        self._waiting = weights[n:].copy()
        return weights[:n]

    def finish(self, n_rows: int) -> None:
        """Read to the end; refuse other weights in number than there were rows."""
        while (found := self._next_piece()) is not None:
            self._waiting = found  # counted, and not wanted
        self.provenance = self._source.raw.finish()
        self.notes += self._source.notes
        if self._n_read != n_rows:
            raise InputError(
                f"{self._path}: {counted(self._n_read, 'weight')}, but the input has "
                f"{counted(n_rows, 'row')}",
                f"{_FIX}; rows that are skipped have one too",
            )
        if self._cut and self._whole:
            raise InputError(f"{self._path}: no newline at the end", "fetch it again")
        if self._cut:
            self.notes.append(
                f"{self._path}: no newline at the end: the last weight may be cut short"
            )

    def _next_piece(self) -> Floats | None:
        try:
            slab = next(self._pieces, None)
        except LongLine:
            problem = f"the line is longer than {format_size(PIECE_BYTES)}: that is no number"
            raise InputFormatError(self._path, self._lines + 1, 1, problem, _FIX) from None
        if slab is None:
            return None
        weights = self._weights_of(slab)
        self._cut = slab.cut
        self._n_read += len(weights)
        return weights

    def _weights_of(self, slab: Slab) -> Floats:
        """Return the weights of whole lines."""
        lines = slab.text[:-2].tobytes().split(b"\n")
        before = self._lines
        self._lines += len(lines)
        try:
            found = np.array([float(line) for line in lines])
        except ValueError:
            found = np.full(1, np.nan)
        # Python takes 1_000 for a number
        if not (found >= 0.0).all() or not (found < TOO_LARGE).all() or 95 in slab.text:
            each = (self._weight(line, before + k) for k, line in enumerate(lines, 1))
            found = np.array([weight for weight in each if weight is not None], np.float64)
        return found + 0.0  # -0 becomes 0

    def _weight(self, line: bytes, number: int) -> float | None:
        """Read a line the slow way: a weight, None if it is blank."""
        token = line.strip(b" \t\r")
        if not token:
            return None
        shown, fix = quoted(token), _FIX
        if _NUMBER.fullmatch(token):
            weight = float(token)
            if 0.0 <= weight < TOO_LARGE:
                return weight
            problem, fix = f"weight {shown} is too large", "scale the weights: they are below 1e154"
            if weight < 0.0:
                problem, fix = f"weight {shown} is negative", "write 0 to leave a row out"
        elif _NOT_FINITE.fullmatch(token):
            problem, fix = f"weight {shown} is not finite", "write 0 to leave a row out"
        elif len(token.split()) > 1:
            problem = f"more than one number in {shown}"
        else:
            problem = f"weight {shown} is not a number"
        column = line.index(token) + 1
        raise InputFormatError(self._path, number, column, problem, fix)
