r"""The files that tell which feature of the input each number of a store means.

``features/f<k>.map`` tells of the features that the k-th batch with new ones brought in, in the
order of their numbers, which go on where those of file k - 1 end. Files are immutable, and written
before the manifest that names them, with their length and SHA-256.

Layout, all integers little-endian::

    header    24 bytes    magic "BLKFEATS", u32 version, u32 k, u64 features
    body      four byte planes of the gaps between indices: plane b has byte b of each, the lowest
              first. A gap is index - index before, modulo 2**32 (the first has 0 before it), folded
              by zigzag: 0 -1 1 -2 -> 0 1 2 3. As they are if their length is that of the planes,
              else a zstd frame
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import zstandard
from numpy.typing import NDArray

from blocklinear.errors import DamagedError, storage_errors
from blocklinear.store.files import make_folder, read_regular, sync_directory, write_whole
from blocklinear.store.manifest import FeatureFile, Manifest
from blocklinear.store.store import BlockStore

FOLDER = "features"
VERSION = 1
_HEADER = struct.Struct("<8sIIQ")
_MAGIC = b"BLKFEATS"
Indices = NDArray[np.uint32]


def write_features(store: Path, k: int, indices: Indices, level: int | None) -> FeatureFile:
    """Write file `k` of a store, durably; return its record.

    Parameters
    ----------
    store : Path
    k : int
        How many files the store has.
    indices : uint32[n]
        As written in the input, in the order of their numbers.
    level : int or None
        Of zstd; None for none.

    Raises
    ------
    StorageError
    """
    planes = _planes_of(indices).data.cast("B") if len(indices) else b""
    body: bytes | memoryview = planes
    if level is not None and len(planes):
        compressed = zstandard.ZstdCompressor(level=level).compress(planes)
        body = compressed if len(compressed) < len(planes) else planes
    header = _HEADER.pack(_MAGIC, VERSION, k, len(indices))
    digest = hashlib.sha256(header)
    digest.update(body)
    folder = store / FOLDER
    make_folder(folder, store)
    name = name_of(k)
    write_whole(folder / name, [header, body])
    sync_directory(folder)
    return FeatureFile(name, len(indices), len(header) + len(body), digest.hexdigest())


def name_of(k: int) -> str:
    """Return the name of file `k`."""
    return f"f{k:08d}.map"


def read_features(store: Path, manifest: Manifest) -> Indices | None:
    """Return the index of each feature, as written in the input, by its number.

    Parameters
    ----------
    store : Path
    manifest : Manifest

    Returns
    -------
    uint32[n_features] or None
        None where features have the numbers of the input.

    Raises
    ------
    DamagedError
        If a file is not what was written.
    StorageError
        If one cannot be read.
    """
    if not manifest.renumbered:
        return None
    found = np.empty(manifest.n_features, np.uint32)
    start, folder = 0, store / FOLDER
    if folder.is_symlink():
        raise DamagedError(f"{folder}: is a link, which could lead anywhere", _FIX)
    for k, record in enumerate(manifest.features):
        _read(folder / record.name, k, record, found[start : start + record.features])
        start += record.features
    base, ordered = manifest.index_base, np.sort(found)
    if len(found) and not base <= int(ordered[0]) <= int(ordered[-1]) < base + manifest.dimension:
        raise DamagedError(f"{folder}: damaged: a feature is out of range", _FIX)
    if (ordered[1:] == ordered[:-1]).any():
        raise DamagedError(f"{folder}: damaged: a feature has two numbers", _FIX)
    return found


_FIX = "restore the folder, or split the data again"


def _read(path: Path, k: int, record: FeatureFile, out: Indices) -> None:
    """Read a file into `out`."""

    def damaged(what: str) -> DamagedError:
        return DamagedError(f"{path}: damaged: {what}", _FIX)

    with storage_errors(path, "read"):
        try:
            data = read_regular(path, record.bytes)
        except FileNotFoundError:
            raise damaged("it is missing") from None
    if len(data) != record.bytes or hashlib.sha256(data).hexdigest() != record.sha256:
        raise damaged("it is not the file that the manifest names")
    if len(data) < _HEADER.size:
        raise damaged("it is too short")
    if _HEADER.unpack_from(data) != (_MAGIC, VERSION, k, len(out)):
        raise damaged("its header is not that of this file")
    body: bytes | memoryview = memoryview(data)[_HEADER.size :]
    if len(body) != 4 * len(out):
        try:
            if zstandard.frame_content_size(body) != 4 * len(out):
                raise damaged("it has the wrong number of features")
            body = zstandard.ZstdDecompressor().decompress(body, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise damaged(str(error)) from error
    _undo_planes(np.frombuffer(body, np.uint8).reshape(4, len(out)), out)


def _planes_of(indices: Indices) -> NDArray[np.uint8]:
    """Return the planes of the gaps between indices, uint8[4, n]."""
    gaps = np.diff(indices, prepend=np.uint32(0)).view(np.int32)
    folded = (gaps << 1) ^ (gaps >> 31)
    return np.ascontiguousarray(folded.astype("<i4").view(np.uint8).reshape(-1, 4).T)


def _undo_planes(planes: NDArray[np.uint8], out: Indices) -> None:
    folded = np.ascontiguousarray(planes.T).reshape(-1).view("<u4").astype(np.uint32)
    gaps = (folded >> np.uint32(1)) ^ -(folded & np.uint32(1))
    np.cumsum(gaps, dtype=np.uint32, out=out)


def to_input(weights: NDArray[np.float64], store: BlockStore) -> NDArray[np.float64]:
    """Return weights in the order of the features of the input.

    Parameters
    ----------
    weights : float64[n_features + 1, M]    by the numbers of the store; the last are of the bias
    store : BlockStore

    Returns
    -------
    float64[dimension + 1, M]
        0 for features that do not occur. The same array where features were not renumbered.

    Raises
    ------
    DamagedError, StorageError
        As `read_features` does.
    """
    indices, manifest = read_features(store.folder, store.manifest), store.manifest
    if indices is None:
        return weights
    found = np.zeros((manifest.dimension + 1, weights.shape[1]))
    found[indices - np.uint32(manifest.index_base)] = weights[:-1]
    found[-1] = weights[-1]
    return found


def unnamed(store: Path, features: Sequence[FeatureFile]) -> Iterator[Path]:
    """Yield the files that tell of features and are not among these, as killed commands leave."""
    names = {record.name for record in features}
    folder = store / FOLDER
    if folder.is_dir() and not folder.is_symlink():
        yield from (path for path in sorted(folder.iterdir()) if path.name not in names)
