"""What is refused while text is read: lines, features, and inputs that are not those expected."""

import math
import os
from collections.abc import Callable, Sequence

from blocklinear.errors import InputError, InputFormatError, UsageError
from blocklinear.inputs.raw import size_of
from blocklinear.memory import PROCESS_BYTES, enough, format_size
from blocklinear.numerals import counted
from blocklinear.options import LINE_FACTOR, TextOptions
from blocklinear.text.faults import index_beyond, refuse_many_hashes, too_many_features
from blocklinear.text.rows import Rows
from blocklinear.text.slabs import LongLine, Slab

_FETCH_AGAIN = "the input may be cut short: fetch it again"


class Limits:
    """The limits of `options`; each method raises the exception of what goes beyond.

    UsageError is raised if the index base is to be found in a stream, or a digest given for several
    inputs; TooManyFeatures if there are more hashes than features allowed.

    Parameters
    ----------
    on_skip : callable        called with the exception of each refused line, in order, with
                              ``on_error="skip"``

    Attributes
    ----------
    skipped : int             refused lines, with ``on_error="skip"``
    """

    def __init__(
        self,
        paths: Sequence[str],
        options: TextOptions,
        on_skip: Callable[[InputFormatError], None],
    ) -> None:
        self._options, self._on_skip = options, on_skip
        self.skipped = 0
        if options.seeks_base:
            _refuse_streams(paths)
        if options.expect_sha256 is not None and len(paths) != 1:
            raise UsageError("--expect-sha256 is for an only input", "give the inputs one by one")
        refuse_many_hashes(options)

    def check_faults(self, path: str, slab: Slab, rows: Rows, lines_before: int) -> None:
        """Count the refused lines of a slab; raise the first of them that may not be skipped."""
        for fault in rows.faults:
            error = fault.error(path, lines_before, slab.cut, self._options.base_of)
            if self._options.on_error == "fail" or self.skipped >= self._options.max_errors:
                raise error
            self.skipped += 1
            self._on_skip(error)

    def check_features(
        self, path: str, slab: Slab, rows: Rows, lines_before: int, index_base: int
    ) -> None:
        """Refuse an index that makes too many features; how many hashes make is known before."""
        options = self._options
        if options.max_features is None or options.hash_bits:
            return
        last = options.max_features + index_base - 1
        if rows.max_index > last:
            refused = {fault.line for fault in rows.faults}
            line, column, index = index_beyond(slab.text, last, refused)
            place = f"{path}:{lines_before + line + 1}:{column}"
            raise too_many_features(place, index, index - index_base + 1, options)

    def check_base(self, path: str, max_index: int, index_base: int) -> None:
        """Refuse features that are too many only since their base was found to be 0 meanwhile."""
        options, n_features = self._options, max_index - index_base + 1
        if options.max_features is not None and n_features > options.max_features:
            raise too_many_features(path, max_index, n_features, options)

    def refused_line(self, path: str, number: int, line: LongLine) -> InputFormatError:
        """Return the exception for a line that is too long, or has too many entries."""
        options = self._options
        lacking = PROCESS_BYTES - options.memory_bytes
        if line.n_entries:
            lacking += math.ceil(4 * line.n_bytes / LINE_FACTOR)
            return InputFormatError(
                path, number, 1,
                f"the line has {counted(line.n_entries, 'entry', 'entries')}: reading them takes "
                f"{format_size(line.n_bytes)}, more than --memory leaves",
                f"check the line ends, or give {enough(lacking)} more --memory",
            )  # fmt: skip
        limit, besides = options.line_limit, ""
        if lacking > 0:
            besides = f", and {enough(lacking)} besides"
        return InputFormatError(
            path, number, limit + 1,
            f"the line is longer than {format_size(limit)}",
            f"check the line ends, or give --max-line-bytes {2 * limit} or more, and eight times "
            f"that more --memory{besides}",
        )  # fmt: skip

    def check_end(self, path: str, final_newline: bool) -> None:
        """Refuse an input without a newline at its end, if one is required."""
        if self._options.require_final_newline and not final_newline:
            raise InputError(f"{path}: no newline at the end", _FETCH_AGAIN)

    def check_digest(self, path: str, found: str | None) -> None:
        """Refuse an input whose SHA-256, in hex, is not the one expected."""
        expected = self._options.expect_sha256
        if expected is not None and found != expected.lower():
            raise InputError(f"{path}: the SHA-256 is {found}, not the one expected", _FETCH_AGAIN)

    def check_rows(self, paths: Sequence[str], found: int) -> None:
        """Refuse inputs that together have not as many rows as expected."""
        expected = self._options.expect_rows
        if expected is not None and found != expected:
            names = ", ".join(paths)
            fix = _FETCH_AGAIN if found < expected else "check which input it is, and the number"
            raise InputError(f"{names}: {counted(found, 'row')}, not the {expected} expected", fix)


def _refuse_streams(paths: Sequence[str]) -> None:
    for path in paths:
        if path == "-" or (os.path.exists(path) and size_of(path) is None):  # no URL is a path
            raise UsageError(
                f"{path}: the index base of a stream is known only at its end",
                "give --index-base 0 or 1 instead of auto",
            )
