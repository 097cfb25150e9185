"""A sample of text or of a store: a small store in a temporary folder."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np

from blocklinear.errors import InputError, UsageError, storage_errors
from blocklinear.inputs.objects import RemoteObject
from blocklinear.inputs.raw import name_of, size_of
from blocklinear.inputs.urls import is_url, shown_names
from blocklinear.options import TextOptions
from blocklinear.planning.growth import Growth
from blocklinear.store.blocks import check_file
from blocklinear.store.features import FOLDER as FEATURES
from blocklinear.store.features import read_features, read_names
from blocklinear.store.manifest import RECIPE_NAME, Manifest
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.store import BlockStore
from blocklinear.text.sources import Source

_PIECES = 48
"""Places that a sample is taken from: rows of a file are often in an order."""
_READ_BYTES = 1 << 20
_ONE_PLACE_ERROR = 0.05
"""Relative error of the rows where all are from one place, which may be unlike the others."""


@dataclass(frozen=True)
class TextSample:
    """Lines of text from all over the inputs; of those that are packed, from their starts."""

    path: Path  # the file with the lines
    rows: int  # that it has
    bytes: int  # that it has
    times: float  # rows in all, over those of the sample
    row_error: float  # relative standard error of `times`
    input_bytes: int  # of all inputs as they are stored
    total_bytes: float  # of all inputs, unpacked
    whole: bool  # whether it has all lines
    spread: bool  # whether lines are from all over the inputs


@dataclass(frozen=True)
class _Piece:
    """How many lines begin in a part of an input, which has so many bytes."""

    rows: int
    part_bytes: int


def sample_text(
    inputs: Sequence[str | os.PathLike[str]], options: TextOptions, most_bytes: int, path: Path
) -> TextSample:
    """Write about `most_bytes` of the lines of some inputs to `path`, or all of them.

    UsageError is raised if an input is a stream, which cannot be read again; InputError if no line
    is found, or a compressed stream is damaged. Raises StorageError, too.
    """
    names = [name_of(found) for found in inputs]
    sizes = []
    for name in names:
        size = size_of(name)
        if os.path.isdir(name):
            raise UsageError(f"{name}: is a folder", "name files of text, or one store alone")
        if size is None and (name == "-" or os.path.exists(name)):
            raise UsageError(f"{name}: a stream cannot be read twice", "name a file")
        sizes.append(size or 0)
    total, unpacked, pieces, whole, spread = sum(sizes), 0.0, list[_Piece](), True, True
    with storage_errors(path, "write"), path.open("wb") as lines:
        for name, size in zip(names, sizes, strict=True):
            share = max(most_bytes * size // max(total, 1), 1)
            with Source(name, options) as source:
                if source.kind != "plain":
                    piece, ratio, ended = _start_of(source, share, lines)
                    unpacked += size * ratio
                    pieces.append(piece)
                    whole, spread = whole and ended, spread and ended
                    continue
            unpacked += size
            whole = whole and size <= share
            pieces += _pieces_of(name, size, share, lines)
    rows = np.array([piece.rows for piece in pieces], float)
    parts = np.array([piece.part_bytes for piece in pieces], float)
    if not rows.sum():
        raise InputError(f"{shown_names(names)}: no rows", "check the input")
    error = 0.0
    if not whole and len(pieces) > 1:
        density = rows / np.maximum(parts, 1.0)
        error = float(density.std(ddof=1) / density.mean() / np.sqrt(len(pieces)))
    elif not whole:
        error = _ONE_PLACE_ERROR
    times = 1.0 if whole else max(unpacked / parts.sum(), 1.0)
    return TextSample(
        path, int(rows.sum()), path.stat().st_size, times, error, total, unpacked, whole, spread
    )


class _Lines:
    """Writes text a part at a time, and counts its lines."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._start = out, out.tell()
        self.n_bytes = self.rows = self._whole = 0

    def write(self, text: bytes) -> None:
        self._out.write(text)
        if (last := text.rfind(b"\n")) >= 0:
            self._whole = self.n_bytes + last + 1  # bytes of lines that have ended
        self.n_bytes += len(text)
        self.rows += text.count(b"\n")

    def end(self) -> None:
        """Write a newline at the end if there is none."""
        if self._whole < self.n_bytes:
            self.write(b"\n")

    def cut(self) -> None:
        """Leave out a last line that has not ended."""
        self.n_bytes = self._whole
        self._out.seek(self._start + self._whole)
        self._out.truncate()


def _start_of(source: Source, most_raw_bytes: int, out: IO[bytes]) -> tuple[_Piece, float, bool]:
    """Write whole lines from the start of a packed input; return its ratio, and if it ended."""
    lines, buffer = _Lines(out), memoryview(bytearray(_READ_BYTES))
    while source.raw.bytes_read < most_raw_bytes or lines.n_bytes < _READ_BYTES:
        n = source.readinto(buffer)
        if not n:
            break
        lines.write(bytes(buffer[:n]))
    ratio = lines.n_bytes / max(source.raw.position, 1)
    ended = not source.readinto(buffer[:1])
    if ended:
        lines.end()
    else:
        lines.cut()
    return _Piece(lines.rows, lines.n_bytes), ratio, ended


def _pieces_of(name: str, size: int, share: int, out: IO[bytes]) -> list[_Piece]:
    """Write lines from places all over a plain file, about `share` bytes of them.

    They are those that begin in parts of equal size: so that each line, short or long, is as likely
    to be among them.
    """
    if size <= share:
        lines = _Lines(out)
        for at in range(0, size, _READ_BYTES):
            lines.write(_read_bytes(name, at, min(_READ_BYTES, size - at)))
        lines.end()
        return [_Piece(lines.rows, size)]
    length = max(share // _PIECES, 1)
    starts = np.linspace(0, size - length, _PIECES).astype(int).tolist()
    pieces = []
    for start in starts:
        before = min(start, 1)  # a newline just before the part: its first line begins with it
        text = _read_bytes(name, start - before, length + before)
        first = text.find(b"\n") + 1 if before else 0
        if before and not first:
            pieces.append(_Piece(0, length))
            continue
        lines, text, end = _Lines(out), text[first:], start + length
        lines.write(text)
        while text and not text.endswith(b"\n") and end < size:
            more = _read_bytes(name, end, min(_READ_BYTES, size - end))
            text, end = more[: more.find(b"\n") + 1] or more, end + len(more)
            lines.write(text)
        lines.end()
        pieces.append(_Piece(lines.rows, length))
    return pieces


def _read_bytes(name: str, start: int, n_bytes: int) -> bytes:
    if is_url(name):
        return RemoteObject(name).read(start, n_bytes)
    with storage_errors(name, "read"), open(name, "rb") as stream:
        stream.seek(start)
        return stream.read(n_bytes)


def sample_store(store: BlockStore, most_entries: int, folder: Path) -> BlockStore:
    """Copy some blocks of a store to a folder: about `most_entries` entries, at least a block.

    Raises DamagedError and StorageError.
    """
    m = store.manifest
    read_features(store.folder, m)  # fetched, where the store is on a URL
    read_names(store.folder, m)
    order = np.random.default_rng(m.seed).permutation(len(m.blocks)).tolist()
    chosen, entries = [], 0
    for k in order:
        chosen.append(k)
        entries += m.blocks[k].nnz
        if entries >= most_entries:
            break
    blocks = [m.blocks[k] for k in sorted(chosen)]
    (folder / "blocks").mkdir(parents=True)
    for record in blocks:
        check_file(store.blocks_folder / record.name, record)
        shutil.copy(store.blocks_folder / record.name, folder / "blocks")
    if (store.folder / FEATURES).is_dir():
        shutil.copytree(store.folder / FEATURES, folder / FEATURES)
    if store.recipe is not None:
        shutil.copy(store.folder / RECIPE_NAME, folder)
    replace(m, blocks=blocks, removed=[], moved={}).counted_anew().save(folder)
    return BlockStore.open(folder)


def growth_of(store: BlockStore) -> Growth:
    """Count the features of a quarter, a half and all of the rows of a store, block by block."""
    m, counts = store.manifest, []
    seen = np.zeros(m.n_features + 1, bool)
    n = len(m.blocks)
    stops = [max(n // 4, 1), max(n // 2, 1), n]
    with GroupLoader(store, 1, 1) as loader:
        for k, loaded in enumerate(loader.stream([(b,) for b in range(n)]), 1):
            seen[loaded.group.indices.astype(np.int64) - m.column_base] = True
            counts += [int(seen.sum())] * stops.count(k)
    return Growth(m.n_rows, *counts)


def blocks_like(manifest: Manifest, n_blocks: int) -> Manifest:
    """Return a manifest of the same totals in so many blocks of equal size."""
    first = manifest.blocks[0]
    rows, nnz = -(-manifest.n_rows // n_blocks), -(-manifest.nnz // n_blocks)
    n_bytes = -(-sum(block.bytes for block in manifest.blocks) // n_blocks)
    block = replace(first, rows=rows, nnz=nnz, bytes=n_bytes)
    blocks = [replace(block, name=f"b{k:08d}.blk") for k in range(n_blocks)]
    return replace(manifest, blocks=blocks)
