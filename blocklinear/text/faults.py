"""What is wrong with a line, where, and what to do about it."""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import overload

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputFormatError, MemoryBudgetError, quoted
from blocklinear.kernels.text import reshape, tokenizer
from blocklinear.memory import WEIGHT_VECTORS, enough, format_size
from blocklinear.options import TextOptions

Explain = Callable[[bytes], tuple[int, str, str]]
_TOKEN = re.compile(rb"[^ \t\r\n#]*")
_WORD = re.compile(rb"[^ \t\r]+")
_LINE = re.compile(rb"[^\n]*\n")
_MAY_BE_CUT = (tokenizer.LABEL_SYNTAX, tokenizer.INDEX_SYNTAX, tokenizer.VALUE_SYNTAX)
_START = re.compile(rb"[+-]?[0-9]*\.?[0-9]*([eE][+-]?)?")
"""What a label, an index or a value may begin with, and is none of them alone."""
_PARQUET = "a Parquet file"
_NOT_DATA = (
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"PK\x03\x04", "a zip or npz file, such as a model"),
    (b"BLKBLOCK", "a block file of blocklinear"),
    (b"\x01\xab\xff\xff", "an XGBoost binary"),
    (b"binf", "an XGBoost binary"),
    (b"\x7fELF", "a program"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
    (b"solver_type ", "a LIBLINEAR model"),
    (b"svm_type ", "a LIBSVM model"),
    (b"\x1f\x8b", "a gz stream within another stream"),
    (b"BZh", "a bz2 stream within another stream"),
    (b"\xfd7zXZ", "an xz stream within another stream"),
    (b"\x28\xb5\x2f\xfd", "a zst stream within another stream"),
    (b"PAR1", _PARQUET),
    (b"ARROW1", "an Arrow file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"@relation", "an ARFF file"),
    (b"{", "JSON"),
    (b"<", "a page of HTML, or XML"),
    (b"version https://git-lfs", "a Git LFS pointer, which stands for a file"),
    (b"\x04\x22\x4d\x18", "an lz4 stream"),
)


class TooManyFeatures(MemoryBudgetError):
    """An index makes more features than are allowed; `place` is path, line and column."""

    place = ""
    index = -1


@dataclass(frozen=True)
class Fault:
    """A refused line within a piece of text."""

    line: int  # 0-based, within the piece
    column: int  # 1-based byte within the line
    problem: str
    fix: str
    at_end: bool  # whether the piece ends within the faulty token, which may have been cut
    first_bytes: bytes  # the start of the line
    code: int = 0  # of the tokenizer, 0 if the fault is another's

    @classmethod
    def found(cls, text: NDArray[np.uint8], code: int, offset: int, line: int) -> "Fault":
        """Explain what the tokenizer found in `text` at `offset`, on its 0-based `line`."""
        start = text[:offset].tobytes().rfind(b"\n") + 1
        match = _TOKEN.match(text[offset : offset + 80].tobytes())
        token = match[0] if match else b""
        problem, fix = explain(code, token)
        end = offset + len(token)
        return cls(
            line,
            offset - start + 1,
            problem,
            fix,
            code in _MAY_BE_CUT and end >= len(text) - 2 and _START.fullmatch(token) is not None,
            text[start : start + 80].tobytes(),
            code,
        )

    def error(self, path: str, lines_before: int, cut: bool, base_of: str = "") -> InputFormatError:
        """Return the exception for this fault.

        Parameters
        ----------
        path : str                the file, as the user named it
        lines_before : int        lines of the file before the piece
        cut : bool                whether the piece is the last of its file and had no final newline
        base_of : str             whose the index base is, where it cannot be chosen
        """
        problem, fix = self.problem, self.fix
        if base_of and self.code == tokenizer.INDEX_BELOW_BASE:
            fix = (
                f"{base_of} numbers features from 1: number these so, too, or split the data that "
                "it is made of again, with --index-base 0"
            )
        guess = guess_format(self.first_bytes) if lines_before + self.line == 0 else None
        if guess:
            problem, fix = guess
        elif self.first_bytes.startswith(b"\xef\xbb\xbf"):
            problem = "a byte order mark in the middle of the text"
            fix = "files were joined that each begin with one: remove it, or pass the files apart"
        elif cut and self.at_end:
            problem += "; the file ends here, in the middle of a line"
            fix = "the file seems to be cut short: fetch it again"
        return InputFormatError(path, lines_before + self.line + 1, self.column, problem, fix)


class Faults(Sequence[Fault]):
    """Refused lines, in order. They may be many: what is wrong with one is found on demand.

    Parameters
    ----------
    text : uint8[n + 1]       must not change
    found : int64[k, 3]       code, offset and line of each, in order, as the tokenizer leaves them
    explained : sequence of Fault       others
    """

    def __init__(
        self, text: NDArray[np.uint8], found: NDArray[np.int64], explained: Sequence[Fault] = ()
    ) -> None:
        self._text, self._found, self._explained = text, found, explained

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        lines = np.array([fault.line for fault in self._explained], np.int64)
        return np.argsort(np.concatenate((self._found[:, 2], lines)), kind="stable")

    def plus(self, explained: Sequence[Fault]) -> "Faults":
        """Return these and others."""
        return Faults(self._text, self._found, (*self._explained, *explained))

    def __len__(self) -> int:
        return len(self._found) + len(self._explained)

    @overload
    def __getitem__(self, at: int) -> Fault: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Fault]: ...
    def __getitem__(self, at: int | slice) -> Fault | Sequence[Fault]:
        if isinstance(at, slice):
            return [self[k] for k in range(*at.indices(len(self)))]
        k, n_found = int(self._order[at]), len(self._found)
        if k >= n_found:
            return self._explained[k - n_found]
        return Fault.found(self._text, *self._found[k].tolist())


def no_faults() -> Faults:
    """Return that no line was refused."""
    return Faults(np.empty(0, np.uint8), np.empty((0, 3), np.int64))


def tokens(line: bytes) -> Iterator[re.Match[bytes]]:
    """Return the label and the entries of a line, one at a time: a long line has millions."""
    return _WORD.finditer(line)


def _contents(text: NDArray[np.uint8]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the 0-based number of each line, the line, and what of it comes before a comment."""
    for number, found in enumerate(_LINE.finditer(text.data)):
        line = found[0][:-1]
        yield number, line, line.split(b"#", 1)[0] if b"#" in line else line


def refused_rows(
    text: NDArray[np.uint8], wanted: Mapping[int, Explain], refused: set[int]
) -> list[Fault]:
    """Explain why rows were refused after they were read: find the lines they came from.

    Parameters
    ----------
    text : uint8[n]
    wanted : mapping          position of a row: a function from its line, without the comment, to
                              the offset of what is at fault, the problem, and the fix
    refused : set of int      lines that left no row
    """
    found: list[Fault] = []
    row = -1
    for number, line, content in _contents(text):
        if number in refused or not _WORD.search(content):
            continue
        row += 1
        if row in wanted:
            offset, problem, fix = wanted[row](content)
            found.append(Fault(number, offset + 1, problem, fix, False, line[:80]))
            if len(found) == len(wanted):
                break
    return found


def places_of(text: NDArray[np.uint8], faults: Sequence[Fault]) -> list[int]:
    """Return how many rows, refused ones included, come before each refused line."""
    refused, places, rows = {fault.line for fault in faults}, [], 0
    for number, _, content in _contents(text):
        if number in refused:
            places.append(rows)
            if len(places) == len(refused):
                break
        rows += number in refused or _WORD.search(content) is not None
    return places


def index_beyond(text: NDArray[np.uint8], last: int, refused: set[int]) -> tuple[int, int, int]:
    """Find the first index above `last`, of which there is one.

    Parameters
    ----------
    text : uint8[n]
    refused : set of int      lines that left no row

    Returns
    -------
    line, column, index : int
        The line is 0-based, the column 1-based.
    """
    for number, _, content in _contents(text):
        if number in refused:
            continue
        for token in islice(tokens(content), 1, None):
            index = _index_of(token[0])
            if index > last:
                return number, token.start() + 1, index
    raise AssertionError(f"no index is above {last}")


def _index_of(token: bytes) -> int:
    """Return the index of ``index:value``; -1 where it is none, or not below 2**64."""
    digits = _without_zeros(token.split(b":")[0])
    return int(digits) if digits.isdigit() and len(digits) < 20 else -1


def _without_zeros(index: bytes) -> bytes:
    """Return an index without leading zeros, of which there may be more than `int` reads."""
    return index.lstrip(b"0") or index[-1:]


def too_many_features(
    place: str, index: int, n_features: int, options: TextOptions
) -> TooManyFeatures:
    """Return the exception for `n_features`, which `index` or hashing would make."""
    limit, needed = options.feature_limit, 8 * WEIGHT_VECTORS * n_features
    fewer = f"split with {'fewer --hash-bits' if options.hash_bits else '--hash-bits'}"
    fix = f"give --max-features {n_features}, or {fewer}"
    if limit == options.memory_bytes // (8 * WEIGHT_VECTORS):
        fix = (
            f"give --memory {enough(needed)}, or {fewer}, or split with "
            f"--max-features {n_features} and train where there is the memory"
        )
    what = f"{place}: index {index} makes" if index >= 0 else f"{place} make"
    error = TooManyFeatures(
        f"{what} {n_features} features, and {limit} are allowed: "
        f"the {WEIGHT_VECTORS} weight vectors of training would take {needed} bytes "
        f"({format_size(needed)})",
        fix,
    )
    error.place, error.index = place, index
    return error


def refuse_many_hashes(options: TextOptions) -> None:
    """Raise TooManyFeatures if there are more hashes than features allowed."""
    n_hashes = 1 << options.hash_bits
    if options.max_features is not None and n_hashes > options.max_features:
        raise too_many_features(f"{options.hash_bits} hash bits", -1, n_hashes, options)


def unmergeable(why: int, index: int, hashed: bool, line: bytes) -> tuple[int, str, str]:
    """Return the offset of what is at fault in a row that cannot be merged, the problem, the fix.

    Parameters
    ----------
    why, index : int          as from `reshape.merge_rows`
    hashed : bool             whether indices had been replaced by hashes
    """
    if hashed:
        problem = f"values whose indices hash to {index} add up to 1e154 or more"
        return next(tokens(line)).start(), problem, "scale the data, or give more --hash-bits"
    entries = islice(tokens(line), 1, None)
    same = (token for token in entries if _index_of(token[0]) == index)
    if why == reshape.REPEATED:
        _, second = next(same), next(same)
        return second.start(), *explain(tokenizer.INDEX_DUPLICATE, _without_zeros(second[0]))
    problem = f"the values of index {index} add up to 1e154 or more"
    return deque(same, 1)[0].start(), problem, "scale the data"


def row_too_large(dtype: str, limit: float, hashed: bool, line: bytes) -> tuple[int, str, str]:
    """Return the offset of the value at which x'x of a row reaches `limit`, the problem, the fix.

    Parameters
    ----------
    dtype : {"float64", "float32"}      what values are rounded to
    limit : float             as `norms.LIMITS` has it
    hashed : bool             whether entries were added up whose indices have the same hash
    line : bytes              as written, without a comment
    """
    fix = "scale the data"
    if dtype == "float32":
        fix += ", or give --dtype float64"
    total, squares = 0.0, f"the squares of the row add up to {limit:g} or more"
    for token in islice(tokens(line), 1, None):
        index, written = token[0].split(b":", 1)
        offset = token.start() + len(index) + 1
        square = float(written) * float(written)
        if square >= limit:
            bound = f"{limit**0.5:.1e}"
            problem = f"value {quoted(written)} is too large for {dtype}: its square overflows"
            return offset, problem, f"{fix}; values are below {bound}"
        total += square
        if total >= limit and not hashed:
            return offset, squares, fix
    return next(tokens(line)).start(), squares, fix  # of entries that were added up


def guess_format(head: bytes) -> tuple[str, str] | None:
    """Name what a file that begins with `head` is, when it is clearly not LIBSVM text."""
    fix = "give LIBSVM text: `label index:value index:value ...`, one row a line"
    table_fix = f"{fix}; tables are read by `split --target COLUMN`, by the column of labels"
    for magic, name in _NOT_DATA:
        if head.startswith(magic):
            return f"this is {name}, not LIBSVM text", table_fix if name == _PARQUET else fix
    line = head.split(b"\n", 1)[0].split(b"#", 1)[0]
    if line.count(b"\0") * 3 > len(line):
        return "this is UTF-16 text or binary data, not LIBSVM text", fix
    if line.count(b",") > 1 and b":" not in line:
        return "this looks like CSV, not LIBSVM text", table_fix
    if b"|" in line:
        return "this looks like Vowpal Wabbit text, not LIBSVM text", fix
    return None


def explain(code: int, token: bytes) -> tuple[str, str]:
    """Return (problem, fix) for a tokenizer code and the offending token."""
    if bad := [c for c in token if not 32 < c < 127]:
        what = f"byte 0x{bad[0]:02x}, which is not printable ASCII," if bad[0] else "a NUL byte"
        return f"{what} in {quoted(token)}", "LIBSVM text is plain ASCII: find what wrote the file"
    shown = quoted(token)
    index = token.split(b":", 1)[0].decode("ascii", "replace")
    lowest = "indices start at 1 unless --index-base 0 or auto is given"
    integer = "write indices as plain decimal integers"
    table: dict[int, tuple[str, str]] = {
        tokenizer.LABEL_SYNTAX: (f"label {shown} is not a finite number", "write labels as 1, -1"),
        tokenizer.LABEL_RANGE: (f"label {shown} is too large", "labels are below 1e154"),
        tokenizer.INDEX_SYNTAX: (f"index in {shown} is not a plain integer", integer),
        tokenizer.INDEX_RANGE: (
            f"index {index[:40]} is not below 4294967296",
            "renumber the features",
        ),
        tokenizer.INDEX_BELOW_BASE: (f"index {index[:40]} is below the index base", lowest),
        tokenizer.INDEX_ORDER: (
            f"index {index[:40]} follows a larger one",
            "sort the indices of each row, or pass --unsorted sort",
        ),
        tokenizer.INDEX_DUPLICATE: (
            f"index {index[:40]} is repeated",
            "merge the repeated entries of each row, or pass --duplicates sum",
        ),
        tokenizer.VALUE_SYNTAX: _explain_value(token),
        tokenizer.VALUE_RANGE: (
            f"value {shown} is too large: its square overflows",
            "scale the data; values are below 1e154",
        ),
        tokenizer.LINE_ENDING: (
            "a carriage return that is not followed by a newline",
            "convert the line endings: `tr '\\r' '\\n'`",
        ),
    }
    if code == tokenizer.LABEL_SYNTAX and b":" in token:
        return f"no label before {shown}", "begin each line with a label"
    if code == tokenizer.INDEX_SYNTAX:
        if index in ("qid", "sid", "cost"):
            fix = f"remove it: `sed 's/[[:blank:]]{index}:[^[:blank:]]*//g'`"
            if index == "qid":
                fix = "pass --ignore-qid, which ignores qid:N right after a label, N an integer"
            return f"{shown} is not a feature", fix
        if b":" not in token:
            return f"no colon in {shown}", "write features as index:value"
    return table[code]


def _explain_value(token: bytes) -> tuple[str, str]:
    """Say why a value was refused; `token` begins at the value."""
    if not token:
        return "no value after the colon", "write index:value without a blank"
    if token.lower().lstrip(b"+-") in (b"nan", b"inf", b"infinity"):
        return f"value {quoted(token)} is not finite", "remove the entry, or impute a number"
    return f"value {quoted(token)} is not a decimal number", "write values as 1, 0.5 or 1e-3"
