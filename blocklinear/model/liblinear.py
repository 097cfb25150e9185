"""LIBLINEAR's model text, written as its `train` writes it and read as its `predict` reads it.

The format is that of `save_model` and `load_model` in LIBLINEAR's ``linear.cpp``: keys and
values separated by blanks, ``w`` last, then one row of numbers per feature and, if there is a bias,
one more for it.
"""

import os
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import IO, Any, NoReturn

import numpy as np
import numpy.typing as npt

from blocklinear.classes import Classes, code_text
from blocklinear.errors import DamagedError, UsageError, quoted
from blocklinear.model.parameters import ModelParameters, WeightsToRead
from blocklinear.numerals import counted, format_number

_KEYS = (b"solver_type", b"nr_class", b"label", b"nr_feature", b"bias", b"rho", b"w")
_NUMBERS_PER_WRITE = 1 << 16
_READ_BYTES = 1 << 22
_NORMALIZED_ROWS = (
    "LIBLINEAR's format cannot record that rows are normalised: normalise those you predict"
)
LARGE = 1 << 19
"""From so many numbers on compiled code writes them; loading that code takes time, too."""
_MAX_TOKEN_BYTES = 400  # a %.17g has 24; some programs write more digits
_TOKEN = re.compile(rb"\s*(\S+)(?=\s)")
_INTEGER = re.compile(rb"[+-]?[0-9]{1,10}")


def matches(head: bytes) -> bool:
    """Whether a file that begins with these (64) bytes claims to be a LIBLINEAR model."""
    tokens = head.split(maxsplit=1)
    return len(tokens) == 2 and tokens[0] in _KEYS


def check_writable(model: ModelParameters) -> None:
    """Refuse a model that LIBLINEAR's text cannot express; see `check_expressible`."""
    check_expressible(model.labels, model.index_base, model.hash_bits)


def check_expressible(labels: Iterable[float], index_base: int, hash_bits: int) -> None:
    """Refuse what LIBLINEAR, which keeps labels in a C int and cannot hash, would change.

    UsageError is raised if a label is not an integer of 32 bits, or features are hashed or numbered
    from 0.

    Parameters
    ----------
    index_base, hash_bits : int         as in a model, or in the manifest of a store
    """
    if hash_bits:
        raise UsageError(
            "features are hashed, and LIBLINEAR cannot hash those of the rows it predicts",
            "save as 'native', or split without --hash-bits",
        )
    for label in labels:
        if not (label.is_integer() and -(1 << 31) <= label < 1 << 31):
            renumber = "number the classes by 32-bit integers"
            raise UsageError(
                f"label {format_number(label)} is no 32-bit integer, and LIBLINEAR's models hold "
                "no others",
                f"save as 'native', or {renumber}" if label.is_integer() else renumber,
            )
    if index_base != 1:
        raise UsageError(
            "features are numbered from 0, and LIBLINEAR's models number them from 1",
            "save as 'native', or train on data numbered from 1",
        )


def not_kept(normalize: str, classes: Classes) -> list[str]:
    """Return warnings of what LIBLINEAR's format cannot keep of a model, though it has weights.

    Parameters
    ----------
    normalize : {"none", "l2"}          how rows are transformed before the weights are applied
    classes : mapping         labels as given, by their numbers; empty if they are numbers
    """
    warnings = [] if normalize == "none" else [_NORMALIZED_ROWS]
    if classes:
        known = list(classes)[:20]
        listed = ", ".join(f"{format_number(code)} is {code_text(code, classes)}" for code in known)
        more = f" and {len(classes) - 20} more" if len(classes) > 20 else ""
        warnings.append(f"LIBLINEAR's format keeps labels as numbers: {listed}{more}")
    return warnings


def write(model: ModelParameters, stream: IO[bytes]) -> None:
    """Write a model as LIBLINEAR does, to the byte.

    Parameters
    ----------
    model : ModelParameters   checked by `check_writable`
    stream : binary file
    """
    one_class = model.solver == "ONECLASS_SVM"
    lines = [f"solver_type {model.solver}"]
    lines += [f"nr_class {len(model.labels) if model.is_classifier else 2}"]
    if model.labels:
        lines += ["label " + " ".join(map(format_number, model.labels))]
    lines += [f"nr_feature {model.n_features}"]
    lines += [f"bias {model.bias if model.bias >= 0 else -1:.17g}"]
    lines += [f"rho {model.rho:.17g}"] if one_class else []
    stream.write(("\n".join(lines) + "\nw\n").encode("ascii"))
    text_of = _compiled() if is_large(model) else _text_of
    step = max(1, _NUMBERS_PER_WRITE // model.n_columns)
    for start in range(0, model.n_features, step):
        stream.write(text_of(model.weights[start : start + step]))
    if model.bias >= 0:
        stream.write(_text_of(model.bias_weights[None, :]))


def is_large(model: ModelParameters) -> bool:
    """Return whether compiled code, five times as fast, is to write the weights."""
    return bool(model.weights.size >= LARGE)


def _text_of(rows: npt.NDArray[np.float64]) -> bytes:
    template = ("%.17g " * rows.shape[1] + "\n") * rows.shape[0]
    text: str = template % tuple(rows.ravel().tolist())
    return text.encode("ascii")


def _compiled() -> Callable[[npt.NDArray[np.float64]], bytes | memoryview]:
    """Return a compiled `_text_of`, whose result is valid until it is called again."""
    from blocklinear.kernels.text.numerals import WIDTH, write_rows  # late: for large models

    out = np.empty(0, np.uint8)

    def text_of(rows: npt.NDArray[np.float64]) -> bytes | memoryview:
        nonlocal out
        most = rows.shape[0] * (rows.shape[1] * WIDTH + 1)
        out = out if len(out) >= most else np.empty(most, np.uint8)
        length = write_rows(rows.copy(), out)
        return _text_of(rows) if length < 0 else out[:length].data

    return text_of


def read(
    name: str, stream: IO[bytes], admit: Callable[[WeightsToRead], None] = lambda found: None
) -> ModelParameters:
    """Read a model text.

    DamagedError is raised if the text is not a whole model; the message has the line. OSError is
    raised if reading fails.

    Parameters
    ----------
    name : str                of the file, for messages
    stream : binary file
    admit : callable          called before the weights are read, and may raise

    Returns
    -------
    ModelParameters
        Not checked yet.
    """
    text = _Text(name, stream)
    header = _read_header(text)
    labels = header.get("label", ())
    n_columns = 1 if header["nr_class"] == 2 else header["nr_class"]
    if header["solver_type"] == "MCSVM_CS":
        n_columns = header["nr_class"]
    n_features, bias = header["nr_feature"], header["bias"]
    admit(WeightsToRead(8 * n_features * n_columns, n_columns, of_tables=False))
    rows = text.numbers(n_features + (bias >= 0), n_columns)
    return ModelParameters(
        weights=rows[:n_features],
        bias_weights=rows[n_features] if bias >= 0 else np.zeros(n_columns),
        bias=bias,
        labels=labels,
        solver=header["solver_type"],
        rho=header.get("rho", 0.0),
    )


def _read_header(text: "_Text") -> dict[str, Any]:
    """Read keys in any order up to ``w``; ``label`` needs ``nr_class`` before it."""
    header: dict[str, Any] = {"bias": -1.0}
    while (key := text.token("a key, or w")) != b"w":
        name = key.decode("ascii", "replace")
        if key == b"solver_type":
            header[name] = text.token("the solver").decode("ascii", "replace")
        elif key in (b"nr_class", b"nr_feature"):
            header[name] = text.integer(name)
            if header[name] < (key == b"nr_class"):
                text.fail(f"{name} is {header[name]}")
        elif key in (b"bias", b"rho"):
            header[name] = text.number(name)
        elif key == b"label":
            if "nr_class" not in header:
                text.fail("label comes before nr_class")
            header[name] = tuple(text.integer("a label") for _ in range(header["nr_class"]))
        else:
            text.fail(f"{quoted(key)} is not a key of a model")
    for name in ("solver_type", "nr_class", "nr_feature"):
        if name not in header:
            text.fail(f"w comes before {name}")
    return header


class _Text:
    """The tokens of a model text, with the line each is on."""

    def __init__(self, path: str, stream: IO[bytes]) -> None:
        self._path, self._stream = path, stream
        self._remaining = os.fstat(stream.fileno()).st_size
        self._buffer, self._line = b"", 1

    def fail(self, problem: str) -> NoReturn:
        """Report a fault on the current line."""
        raise DamagedError(
            f"{self._path}:{self._line}: {problem}", "train again, or fetch the file again"
        )

    def token(self, wanted: str) -> bytes:
        """Take the next token of the header."""
        while not (found := _TOKEN.match(self._buffer)):
            more = self._stream.read(4096)
            if not more or len(self._buffer.strip()) > _MAX_TOKEN_BYTES:
                self.fail(f"{wanted} is missing")
            self._remaining -= len(more)
            self._buffer += more
        # The newline after a token stays in the buffer: a fault in the token is on its own line.
        self._line += self._buffer.count(b"\n", 0, found.end())
        self._buffer = self._buffer[found.end() :]
        return found[1]

    def integer(self, name: str) -> int:
        """Take an integer that fits a C int."""
        token = self.token(name)
        if not _INTEGER.fullmatch(token) or not -(1 << 31) <= int(token) < 1 << 31:
            self.fail(f"{name} is {quoted(token)}, not an integer of 32 bits")
        return int(token)

    def number(self, name: str) -> float:
        """Take a finite number."""
        token = self.token(name)
        value = _parse([token])
        if value is None:
            self.fail(f"{name} is {quoted(token)}, not a finite number")
        return float(value[0])

    def numbers(self, n_rows: int, n_columns: int) -> npt.NDArray[np.float64]:
        """Take the rest of the file: exactly `n_rows` times `n_columns` numbers."""
        total = n_rows * n_columns
        most = (self._remaining + len(self._buffer)) // 2  # a digit and a blank each
        if total > most + 1:
            self.fail(f"w must have {counted(total, 'number')}, and the file is too short for them")
        values, done = np.empty(total), 0
        at_end = False
        while not at_end:
            more = self._stream.read(_READ_BYTES)
            at_end = not more
            piece = self._buffer + more
            end = len(piece) if at_end else _last_blank(piece)
            if end == 0 and len(piece) > _MAX_TOKEN_BYTES:
                self.fail(f"{quoted(piece[:99])} is not a number")
            self._buffer = piece[end:]
            tokens = piece[:end].split()
            parsed = _parse(tokens)
            if parsed is None:
                bad = next(k for k, token in enumerate(tokens) if _parse([token]) is None)
                self._skip_to(bad, piece)
                self.fail(f"{quoted(tokens[bad])} is not a finite number")
            if done + len(parsed) > total:
                self._skip_to(total - done, piece)
                self.fail(f"w goes on after its {counted(total, 'number')}")
            self._line += piece.count(b"\n", 0, end)
            values[done : done + len(parsed)] = parsed
            done += len(parsed)
        if done < total:
            self.fail(f"w ends after {done} of {counted(total, 'number')}")
        return values.reshape(n_rows, n_columns)

    def _skip_to(self, k: int, piece: bytes) -> None:
        """Move on to the line of token `k` of a piece, for a message."""
        token = next(islice(re.finditer(rb"\S+", piece), k, None))
        self._line += piece.count(b"\n", 0, token.start())


def _last_blank(piece: bytes) -> int:
    """Return the position after which a token may be incomplete."""
    return max(piece.rfind(b" "), piece.rfind(b"\n"), piece.rfind(b"\t")) + 1


def _parse(tokens: list[bytes]) -> npt.NDArray[np.float64] | None:
    """Read tokens as finite numbers; None if one is not."""
    try:
        values = np.fromiter(map(float, tokens), np.float64, len(tokens))
    except ValueError:
        return None
    if not np.isfinite(values).all() or any(b"_" in token for token in tokens):
        return None  # float() takes 1_000 for a number, LIBLINEAR does not
    return values
