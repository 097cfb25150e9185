r"""The files that hold, for each feature number of a store, its index in the input.

``features/f<k>.map`` holds the features that first occurred in the k-th batch with new ones, in the
order of their numbers, which continue those of file k - 1. The files are immutable, and written
before the manifest that names them with their length and SHA-256.

Layout, all integers little-endian::

    header    24 bytes    magic "BLKFEATS", u32 version, u32 k, u64 features
    body      four byte planes of the gaps between indices: plane b has byte b of each, the lowest
              first. A gap is index - index before, modulo 2**32 (the first has 0 before it), folded
              by zigzag: 0 -1 1 -2 -> 0 1 2 3. A zstd frame of the four planes, if it is shorter;
              else as they are

A frame of just the length of the planes, which earlier versions wrote, is read as what it is.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from blocklinear.errors import DamagedError, storage_errors
from blocklinear.names import pack, unpack
from blocklinear.store.files import make_folder, read_regular, sync_directory, write_whole
from blocklinear.store.manifest import Manifest
from blocklinear.store.records import FeatureFile
from blocklinear.store.remote.mirror import check_sha256, fetched, fix_of_damage

FOLDER = "features"
VERSION = 1
_HEADER = struct.Struct("<8sIIQ")
_PIECE = 1 << 16
"""Features worked on at a time, to take little more memory than they do."""
_MAGIC = b"BLKFEATS"
Indices = NDArray[np.uint32]


def write_features(store: Path, k: int, indices: Indices, level: int | None) -> FeatureFile:
    """Write file `k` of a store, durably; return its record.

    Raises StorageError.

    Parameters
    ----------
    k : int                   how many files the store has
    indices : uint32[n]       as written in the input, in the order of their numbers; used up
    level : int or None       of zstd; None for none
    """
    parts = _planes_of(indices, level)
    header = _HEADER.pack(_MAGIC, VERSION, k, len(indices))
    digest = hashlib.sha256(header)
    for part in parts:
        digest.update(part)
    folder = store / FOLDER
    make_folder(folder, store)
    name = name_of(k)
    write_whole(folder / name, [header, *parts])
    sync_directory(folder)
    size = len(header) + sum(map(len, parts))
    return FeatureFile(name, len(indices), size, digest.hexdigest())


def name_of(k: int) -> str:
    """Return the name of file `k`."""
    return f"f{k:08d}.map"


def read_features(store: Path, manifest: Manifest) -> Indices | None:
    """Return the index of each feature, as written in the input, by its number.

    DamagedError is raised if a file is not what was written; StorageError if one cannot be read.

    Returns
    -------
    uint32[n_features] or None
        None where features have the numbers of the input.
    """
    if not manifest.renumbered:
        return None
    found = np.empty(manifest.n_features, np.uint32)
    start, base = 0, manifest.index_base
    for k, record in enumerate(manifest.features):
        _read_features(store, k, record, found[start : start + record.features])
        start += record.features
    if len(found) and not base <= int(found.min()) <= int(found.max()) < base + manifest.dimension:
        raise _damaged(store / FOLDER, "a feature is out of range")
    if any_twice(found, base, manifest.dimension):
        raise _damaged(store / FOLDER, "a feature has two numbers")
    return found


def any_twice(indices: Indices, base: int, dimension: int) -> bool:
    """Return whether an index comes twice, in no more memory than a sorted copy takes."""
    if dimension > indices.nbytes:
        ordered = np.sort(indices)
        return bool((ordered[1:] == ordered[:-1]).any())
    marks = np.zeros(dimension, np.bool_)
    for start in range(0, len(indices), _PIECE):  # NumPy makes positions of 8 bytes of indices
        marks[indices[start : start + _PIECE] - np.uint32(base)] = True
    return int(np.count_nonzero(marks)) < len(indices)


_FIX = "restore the folder, or split the data again"


def _damaged(path: Path, what: str, fix: str = _FIX) -> DamagedError:
    return DamagedError(f"{path}: damaged: {what}", fix)


def _read_named(path: Path, n_bytes: int, sha256: str) -> bytes:
    """Return the content of a file that the manifest names."""
    if path.parent.is_symlink():
        raise DamagedError(f"{path.parent}: is a link, which could lead anywhere", _FIX)
    fetched(path, lambda: check_sha256(path, sha256))
    with storage_errors(path, "read"):
        try:
            data = read_regular(path, n_bytes)
        except FileNotFoundError:
            raise _damaged(path, "it is missing") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        what = "it is not the file that the manifest names"
        raise _damaged(path, what, fix_of_damage(path, _FIX))
    return data


def _read_features(store: Path, k: int, record: FeatureFile, out: Indices) -> None:
    """Read a file of features into `out`."""
    path = store / FOLDER / record.name
    data = _read_named(path, record.bytes, record.sha256)
    if len(data) < _HEADER.size:
        raise _damaged(path, "it is too short")
    if _HEADER.unpack_from(data) != (_MAGIC, VERSION, k, len(out)):
        raise _damaged(path, "its header is not that of this file")
    body = memoryview(data)[_HEADER.size :]
    planes: IO[bytes] = BytesIO(body)
    if _is_frame(body, 4 * len(out)):
        planes = zstandard.ZstdDecompressor().stream_reader(body)
    try:
        if not _undo_planes(planes, out):
            raise _damaged(path, "it has the wrong number of features")
    except zstandard.ZstdError as error:
        raise _damaged(path, str(error)) from error


def _is_frame(body: memoryview, n_bytes: int) -> bool:
    """Return whether this is a zstd frame of so many bytes: its first four say so, and the size."""
    try:
        return bool(zstandard.frame_content_size(body) == n_bytes)
    except zstandard.ZstdError:
        return False


def _planes_of(indices: Indices, level: int | None) -> list[bytes | memoryview]:
    """Return the planes of the gaps between indices, as a frame if that is shorter."""
    for start in reversed(range(0, len(indices), _PIECE)):  # in place: what is before stays
        part = indices[start : start + _PIECE]
        before = np.empty_like(part)
        before[1:], before[:1] = part[:-1], indices[start - 1] if start else 0
        gaps = (part - before).view(np.int32)
        part[:] = ((gaps << 1) ^ (gaps >> 31)).view(np.uint32)
    if level is not None:
        packer = zstandard.ZstdCompressor(level=level).compressobj(size=4 * len(indices))
        frame = [packer.compress(_plane_of(indices, b)) for b in range(4)] + [packer.flush()]
        if sum(map(len, frame)) < 4 * len(indices):
            return list(frame)
    return [_plane_of(indices, b) for b in range(4)]


def _plane_of(indices: Indices, b: int) -> memoryview:
    """Return byte `b` of each number, with little scratch."""
    plane = np.empty(len(indices), np.uint8)
    for start in range(0, len(indices), _PIECE):
        part = indices[start : start + _PIECE] >> np.uint32(8 * b)
        plane[start : start + _PIECE] = part.astype(np.uint8)
    return plane.data


def _undo_planes(planes: IO[bytes], out: Indices) -> bool:
    """Read indices from the planes of their gaps; say whether there were just as many."""
    out[:] = 0
    for b in range(4):
        for start in range(0, len(out), _PIECE):
            part = out[start : start + _PIECE]
            read = np.frombuffer(planes.read(len(part)), np.uint8)
            if len(read) != len(part):
                return False
            part |= read.astype(np.uint32) << np.uint32(8 * b)
    last = np.uint32(0)
    for start in range(0, len(out), _PIECE):
        part = out[start : start + _PIECE]
        part[:] = (part >> np.uint32(1)) ^ (~(part & np.uint32(1)) + np.uint32(1))
        part[:1] += last
        np.cumsum(part.copy(), dtype=np.uint32, out=part)
        last = part[-1]
    return not planes.read(1)


def to_input(
    weights: NDArray[np.float64], store: Path, manifest: Manifest, by_column: bool = False
) -> NDArray[np.float64]:
    """Return weights in the order of the features of the input.

    DamagedError and StorageError are raised as by `read_features`.

    Parameters
    ----------
    weights : float64[n_features + 1, M]          by the numbers of the store; the last are of the
                              bias
    store : Path              the folder
    by_column : bool          whether those of a column are to be next to each other in memory

    Returns
    -------
    float64[dimension + 1, M]
        0 for features that do not occur. The same array where features were not renumbered.
    """
    indices = read_features(store, manifest)
    if indices is None:
        return weights
    found = np.zeros((manifest.dimension + 1, weights.shape[1]), order="F" if by_column else "C")
    for start in range(0, len(indices), _PIECE):  # in pieces, as above
        part = indices[start : start + _PIECE]
        found[part - np.uint32(manifest.index_base)] = weights[start : start + len(part)]
    found[-1] = weights[-1]
    return found


def write_names(store: Path, names: Sequence[str]) -> dict[str, Any]:
    """Write the names of the features of the input, durably; return what the manifest tells.

    Raises StorageError.
    """
    data, n_bytes = pack(names)
    folder, file = store / FOLDER, "n00000000.zst"
    make_folder(folder, store)
    write_whole(folder / file, [data])
    sync_directory(folder)
    digest = hashlib.sha256(data).hexdigest()
    return {
        "file": file, "names": len(names), "size": len(data), "bytes": n_bytes, "sha256": digest,
    }  # fmt: skip


def read_names(store: Path, manifest: Manifest) -> tuple[str, ...] | None:
    """Return the names of the features of the input, the first ones; None if they have none.

    DamagedError is raised if the file is not what was written; StorageError if it cannot be read.
    """
    record = manifest.names
    if not record:
        return None
    path = store / FOLDER / record["file"]
    data = _read_named(path, record["size"], record["sha256"])
    try:
        return unpack(data, record["bytes"], record["names"])
    except ValueError as error:
        raise _damaged(path, str(error)) from error


def unnamed(store: Path, manifest: Manifest) -> Iterator[Path]:
    """Yield the files that tell of features and are not of these, as killed commands leave."""
    names = {record.name for record in manifest.features} | {manifest.names.get("file")}
    folder = store / FOLDER
    if folder.is_dir() and not folder.is_symlink():
        yield from (path for path in sorted(folder.iterdir()) if path.name not in names)
