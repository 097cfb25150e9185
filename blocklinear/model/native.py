"""The native model file: an uncompressed ``.npz`` that is either intact or refused.

Members, in this order, each an ``.npy`` of version 1.0 behind a prefix of 128 bytes:

=============  ==============================  ====================================================
header         uint8 (any,)                    JSON: format, version, shapes and everything small
bias_weights   float64 (n_columns,)
weights        float64 (n_features, n_columns)     layout "dense" only
rows           uint32 (n_rows_stored,)             layout "sparse": features with a nonzero weight
row_weights    float64 (n_rows_stored, n_columns)  layout "sparse": their weights
names          uint8 (any,)                    version 2, if features have names: see `names.pack`
sha256         uint8 (32,)                     digest of the names and data of the members above
=============  ==============================  ====================================================

Nothing but names is compressed, so no member can be larger than the file, and what is allocated is
bounded by bytes that exist. The prefix follows from type and shape and is compared, never parsed.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from blocklinear.classes import from_json, to_json
from blocklinear.errors import DamagedError, MemoryBudgetError, MismatchError
from blocklinear.memory import available_bytes, format_size
from blocklinear.model.parameters import ModelParameters, WeightsToRead
from blocklinear.names import MOST_BYTES, pack, unpack

FORMAT = "blocklinear model"
VERSION = 2
"""The newest. Version 1 has neither classes nor names of features; a model without is one."""
_PREFIX_BYTES = 128
_END, _END_BYTES = b"PK\x05\x06", 22  # the last record of an archive without a comment
_PIECE_BYTES = 1 << 20
_FEATURES_AT_A_TIME = 1 << 16
_MAX_FEATURES = 1 << 32
_FIX = "train again, or fetch the file again"


def matches(head: bytes) -> bool:
    """Whether a file that begins with these (64) bytes claims to be a native model."""
    return head[:4] == b"PK\x03\x04" and head[30:40] == b"header.npy"


def write(model: ModelParameters, stream: IO[bytes]) -> None:
    """Write a model, with little scratch; the same model gives the same bytes.

    Parameters
    ----------
    stream : binary file, seekable
    """
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": 2 if model.classes or model.feature_names else 1,
        "solver": model.solver,
        "labels": list(model.labels),
        "bias": model.bias,
        "rho": model.rho,
        "index_base": model.index_base,
        "n_features": model.n_features,
        "n_columns": model.n_columns,
        "metadata": model.metadata,
    }
    # By bits, so that -0.0 comes back as it was.
    rows = np.flatnonzero(model.weights.view(np.uint64).any(axis=1)).astype("<u4")
    weights = model.weights.astype("<f8", copy=False)
    arrays: dict[str, npt.NDArray[Any]] = {"bias_weights": model.bias_weights.astype("<f8")}
    if len(rows) * (4 + 8 * model.n_columns) < model.weights.nbytes:
        header |= {"layout": "sparse", "n_rows_stored": len(rows)}
        arrays |= {"rows": rows, "row_weights": weights}
    else:
        header |= {"layout": "dense"}
        arrays["weights"] = weights
    if header["version"] == 2:
        packed, n_bytes = pack(model.feature_names or ())
        header |= {"classes": to_json(model.classes)}
        header |= {"names": len(model.feature_names or ()), "names_bytes": n_bytes}
        arrays["names"] = np.frombuffer(packed, np.uint8)
    text = json.dumps(header, allow_nan=False, separators=(",", ":"), sort_keys=True).encode()
    digest = hashlib.sha256()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in {"header": np.frombuffer(text, np.uint8), **arrays}.items():
            digest.update(name.encode())
            member_rows = rows if name == "row_weights" else None
            for piece in _write_member(archive, name, array, member_rows):
                digest.update(piece)
        seal = np.frombuffer(digest.digest(), np.uint8)
        for _ in _write_member(archive, "sha256", seal):
            pass


def _write_member(
    archive: zipfile.ZipFile,
    name: str,
    array: npt.NDArray[Any],
    rows: npt.NDArray[np.uint32] | None = None,
) -> Iterator[memoryview]:
    """Write an array, or some rows of it, yielding the bytes in pieces on the way."""
    info = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))  # no clock: same bytes each time
    info.create_system = 3
    info.external_attr = 0o600 << 16
    n = len(array if rows is None else rows)
    step = max(_PIECE_BYTES // max(array[:1].nbytes, 1), 1)
    with archive.open(info, "w", force_zip64=True) as member:
        member.write(_prefix(array.dtype.str, (n, *array.shape[1:])))
        for start in range(0, n, step):
            lines = slice(start, start + step) if rows is None else rows[start : start + step]
            piece = array[lines].reshape(-1).view(np.uint8).data
            member.write(piece)
            yield piece


def _prefix(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return what NumPy puts before the data of an ``.npy``, padded to 128 bytes."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    padded = text.ljust(_PREFIX_BYTES - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode("ascii")


def read(
    name: str, stream: IO[bytes], admit: Callable[[WeightsToRead], None] = lambda found: None
) -> ModelParameters:
    """Read a model file.

    DamagedError is raised if the file is not, byte for byte, what was written; MismatchError if its
    format version is newer than this program; MemoryBudgetError if the weights cannot fit the
    memory of this machine; OSError if reading fails.

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
    size = os.fstat(stream.fileno()).st_size
    with _damage(name), zipfile.ZipFile(stream) as archive:
        _check_extent(archive, stream)
        source = _Members(archive, size)
        header = _read_header(name, source)
        fields = _read_arrays(name, header, source, admit)
        if sorted(archive.namelist()) != sorted(source.seen):
            raise ValueError("it has other members than a model")
        return ModelParameters(**fields)


def _check_extent(archive: zipfile.ZipFile, stream: IO[bytes]) -> None:
    """Refuse bytes before or after an archive: `zipfile` passes over them."""
    stream.seek(-_END_BYTES, os.SEEK_END)
    ends = stream.read(len(_END)) == _END
    if not ends or archive.getinfo("header.npy").header_offset:
        raise ValueError("the file is longer than the model in it")


@contextlib.contextmanager
def _damage(name: str) -> Iterator[None]:
    """Turn the errors that a malformed archive causes into a `DamagedError`."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        ArithmeticError,
        EOFError,
        LookupError,
        RuntimeError,  # an "encrypted" or otherwise unknown member; too deep JSON
        TypeError,
        ValueError,
    ) as error:
        problem = error.args[0] if error.args else type(error).__name__
        raise DamagedError(f"{name}: the model is damaged: {problem}", _FIX) from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # a directory entry that points before the file
            raise
        raise DamagedError(f"{name}: the model is damaged: {error.strerror}", _FIX) from error


class _Members:
    """The arrays of an archive, each checked against the file's size before it is allocated."""

    def __init__(self, archive: zipfile.ZipFile, file_bytes: int) -> None:
        self._archive, self._file_bytes = archive, file_bytes
        self._digest = hashlib.sha256()
        self.seen: list[str] = []

    def read(self, name: str, dtype: str, shape: tuple[int, ...] | None) -> npt.NDArray[Any]:
        """Return a member; a shape of None stands for a vector of any length."""
        if shape is None:
            data_bytes = self._archive.getinfo(f"{name}.npy").file_size - _PREFIX_BYTES
            shape = (max(data_bytes, 0) // np.dtype(dtype).itemsize,)
        self._check_size(name, dtype, shape)
        array = np.empty(shape, dtype)
        done = 0
        for piece in self.pieces(name, dtype, shape):
            array[done : done + len(piece)] = piece
            done += len(piece)
        return array

    def pieces(self, name: str, dtype: str, shape: tuple[int, ...]) -> Iterator[npt.NDArray[Any]]:
        """Yield a member a few lines at a time."""
        info = self._check_size(name, dtype, shape)
        line_bytes = math.prod(shape[1:]) * np.dtype(dtype).itemsize
        step = max(_PIECE_BYTES // max(line_bytes, 1), 1)
        self._digest.update(name.encode())
        with self._archive.open(info) as member:
            if member.read(_PREFIX_BYTES) != _prefix(dtype, shape):
                raise ValueError(f"{name} is not of type {dtype} and shape {shape}")
            for start in range(0, shape[0] if line_bytes else 0, step):
                n = min(step, shape[0] - start)
                piece = member.read(n * line_bytes)
                self._digest.update(piece)
                yield np.frombuffer(piece, dtype).reshape(n, *shape[1:])
        self.seen.append(info.filename)

    def _check_size(self, name: str, dtype: str, shape: tuple[int, ...]) -> zipfile.ZipInfo:
        """Return where a member is, if it is as long as its shape says."""
        info = self._archive.getinfo(f"{name}.npy")
        data_bytes = info.file_size - _PREFIX_BYTES
        expected = math.prod(shape) * np.dtype(dtype).itemsize
        if (
            info.compress_type != zipfile.ZIP_STORED
            or info.compress_size != info.file_size
            or not 0 <= data_bytes == expected <= self._file_bytes
        ):
            raise ValueError(f"{name} is {data_bytes} bytes long, not {expected}")
        return info

    def check_digest(self) -> None:
        """Compare the digest of all that was read with the one in the archive."""
        actual = self._digest.digest()
        if self.read("sha256", "|u1", (32,)).tobytes() != actual:
            raise ValueError("its sha256 does not match")


def _read_header(name: str, source: _Members) -> dict[str, Any]:
    header = json.loads(source.read("header", "|u1", None).tobytes())
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError("the header is not a model's")
    version = _integer(header, "version", 1 << 31)
    if version > VERSION:
        raise MismatchError(
            f"{name}: model format {version} is newer than {VERSION}, the newest known here",
            "use a newer blocklinear, or convert the model with the one that wrote it",
        )
    if version < 1:
        raise ValueError(f"format version {version} never existed")
    return header


def _read_arrays(
    name: str, header: dict[str, Any], source: _Members, admit: Callable[[WeightsToRead], None]
) -> dict[str, Any]:
    n_features = _integer(header, "n_features", _MAX_FEATURES)
    n_columns = _integer(header, "n_columns", 1 << 31)
    labels, metadata = header["labels"], header["metadata"]
    if not isinstance(labels, list) or not isinstance(metadata, dict):
        raise ValueError("labels or metadata are of the wrong type")
    admit(WeightsToRead(8 * n_features * n_columns, n_columns, "recipe" in metadata))
    fields: dict[str, Any] = {
        "bias_weights": source.read("bias_weights", "<f8", (n_columns,)),
        "labels": tuple(_number(label) for label in labels),
        "bias": _number(header["bias"]),
        "rho": _number(header["rho"]),
        "solver": str(header["solver"]),
        "index_base": _integer(header, "index_base", 1),
        "metadata": metadata,
    }
    if header["layout"] == "dense":
        fields["weights"] = source.read("weights", "<f8", (n_features, n_columns))
        fields |= _read_names(header, source)
        source.check_digest()
        return fields
    if header["layout"] != "sparse":
        raise ValueError(f"layout {header['layout']!r} is unknown")
    n_stored = _integer(header, "n_rows_stored", n_features)
    weights, increasing = _Sparse(n_features, n_columns), True
    for rows in source.pieces("rows", "<u4", (n_stored,)):
        increasing = increasing and weights.mark(rows)
    for row_weights in source.pieces("row_weights", "<f8", (n_stored, n_columns)):
        if increasing:
            weights.fill(row_weights)
    fields |= _read_names(header, source)
    source.check_digest()
    if not increasing:
        raise ValueError("rows are not strictly increasing feature numbers")
    fields["weights"] = weights.all(name)
    return fields


class _Sparse:
    """Weights of which most are 0, filled in as they are read, with little scratch.

    A feature that has weights is marked in the place of the first of them.
    """

    def __init__(self, n_features: int, n_columns: int) -> None:
        self._needed, self._available = 8 * n_features * n_columns, available_bytes()
        self._fits = self._needed <= self._available  # a forged header may ask for more
        self._weights = np.zeros((n_features if self._fits else 0, n_columns))
        self._n_features, self._n_columns = n_features, n_columns
        self._last, self._filled = -1, 0

    def mark(self, rows: npt.NDArray[np.uint32]) -> bool:
        """Mark the next features; say whether they increase, and there are such."""
        if not len(rows):
            return True
        if int(rows[0]) <= self._last or int(rows[-1]) >= self._n_features:
            return False
        self._last = int(rows[-1])
        if (rows[1:] <= rows[:-1]).any():
            return False
        if self._fits and self._n_columns:
            self._weights[rows, 0] = 1.0
        return True

    def fill(self, row_weights: npt.NDArray[np.float64]) -> None:
        """Put weights to the next features that are marked."""
        while self._fits and len(row_weights):
            lines = self._weights[self._filled : self._filled + _FEATURES_AT_A_TIME]
            marked = np.flatnonzero(lines[:, 0])[: len(row_weights)]
            lines[marked] = row_weights[: len(marked)]
            row_weights = row_weights[len(marked) :]
            # what follows is still to be filled, unless there is nothing left of these features
            self._filled += len(lines) if len(row_weights) else int(marked[-1]) + 1

    def all(self, name: str) -> npt.NDArray[np.float64]:
        """Return the weights; MemoryBudgetError is raised if they are more than memory holds."""
        if not self._fits:
            raise MemoryBudgetError(
                f"{name}: {self._n_features} x {self._n_columns} weights need "
                f"{format_size(self._needed)}, {format_size(self._available)} are available",
                "use a machine with more memory",
            )
        return self._weights


def _read_names(header: dict[str, Any], source: _Members) -> dict[str, Any]:
    """Return classes and names of features, of a model that has such."""
    if header["version"] == 1:
        return {}
    n_names = _integer(header, "names", _MAX_FEATURES)
    packed = source.read("names", "|u1", None).tobytes()
    names = unpack(packed, _integer(header, "names_bytes", MOST_BYTES), n_names)
    return {"classes": from_json(header["classes"]), "feature_names": names or None}


def _integer(header: dict[str, Any], key: str, most: int) -> int:
    value = header[key]
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{key} is {str(value)[:40]}, not an integer from 0 to {most}")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{str(value)[:40]!r} is not a number")
    return float(value)
