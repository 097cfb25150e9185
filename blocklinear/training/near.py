"""Rows near the margin that a run leaves to a warm start, encoded as those of blocks are.

While they are found they go into a scratch file, a few chunks for each block; the last checkpoint
of the run takes its content over, and where each chunk is.
"""

from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import DamagedError, StorageError, storage_errors
from blocklinear.kernels.gather import gather_rows
from blocklinear.store import codec
from blocklinear.store.files import created
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.writer import CHUNK_ENTRIES
from blocklinear.training.active import Rows, fitting, whole_group

Floats = NDArray[np.float64]
Places = list[list[list[int]]]
"""Of each block, the chunks its rows are in: where each begins, its bytes, rows and entries."""


class NearWriter:
    """Rows on their way to a warm start.

    Parameters
    ----------
    path : Path
        The scratch file.
    manifest : Manifest
    share : float
        Of the entries of each block, what is left at most.

    Attributes
    ----------
    places : list             of each block, see `Places`
    """

    def __init__(self, path: Path, manifest: Manifest, share: float) -> None:
        self._path, self._share = path, share
        self._sizes = [block.nnz for block in manifest.blocks]
        self._level = codec.compression_level(manifest.compression)
        self._stream: FileIO | None = None
        self._error: StorageError | None = None
        self.places: Places = [[] for _ in self._sizes]

    def begin(self) -> None:
        """Start anew."""
        self.discard()
        self.places, self._error = [[] for _ in self._sizes], None

    def add(self, group: Group, chosen: NDArray[np.int64], worth: Floats) -> None:
        """Take rows of a group.

        Parameters
        ----------
        group : Group
        chosen : int64[k]     rows of the group, ascending
        worth : float64[k]    which to prefer where not all may be left
        """
        cuts, rows = np.searchsorted(chosen, group.starts), whole_group(group)
        for place, block in enumerate(group.blocks):
            lines = chosen[cuts[place] : cuts[place + 1]]
            lengths = rows.stops[lines] - rows.starts[lines]
            kept = fitting(
                lengths, worth[cuts[place] : cuts[place + 1]], self._share * self._sizes[block]
            )
            lines, ends = lines[kept], np.cumsum(lengths[kept])
            pieces = np.split(lines, np.flatnonzero(np.diff((ends - 1) // CHUNK_ENTRIES)) + 1)
            for piece in pieces if len(lines) else ():
                self._append(block, rows.some(piece), piece - group.starts[place])

    def _append(self, block: int, rows: Rows, lines: NDArray[np.int64]) -> None:
        """Write a chunk; an error is kept for who asks what was left."""
        if self._error is not None:
            return
        n_entries = int((rows.stops - rows.starts).sum())
        try:
            with storage_errors(self._path, "write"):
                self._stream = self._stream or created(self._path)
                start = self._stream.tell()
                data = codec.encode(_chunk(rows, lines, n_entries), self._level)
                while data:
                    data = data[self._stream.write(data) :]
                size = self._stream.tell() - start
        except StorageError as error:
            self._error = error
            return
        self.places[block].append([start, size, len(lines), n_entries])

    def left(self) -> NDArray[np.uint8]:
        """Return the chunks, one after the other, uint8[].

        Raises
        ------
        StorageError
            If they could not all be written.
        """
        if self._error is not None:
            raise self._error
        if self._stream is None:
            return np.zeros(0, np.uint8)
        with storage_errors(self._path, "read"):
            return np.memmap(self._stream, np.uint8, "r")

    def discard(self) -> None:
        """Delete the scratch file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._path.unlink(missing_ok=True)


def _chunk(rows: Rows, lines: NDArray[np.int64], n_entries: int) -> codec.Chunk:
    indices, values = np.empty(n_entries, np.uint32), np.empty(n_entries, rows.values.dtype)
    starts, stops = np.empty(len(lines), np.int64), np.empty(len(lines), np.int64)
    gather_rows(
        rows.starts, rows.stops, rows.indices, rows.values, 0, indices, values, starts, stops
    )
    labels = codec.decimals(rows.labels)
    return codec.Chunk(
        lines.copy(), stops - starts, *labels, indices, *codec.decimals(values), rows.weights
    )


class NearRows:
    """Rows that a run left, by the blocks it had.

    Parameters
    ----------
    data : uint8[]
        The chunks.
    places : list
        See `Places`.

    Attributes
    ----------
    bytes : int               that they take in the file
    """

    def __init__(self, data: NDArray[np.uint8], places: Places) -> None:
        self._data, self._places = data, places
        self.bytes = len(data)

    def of_block(self, block: int, manifest: Manifest) -> Iterator[Rows]:
        """Yield the rows of a block, by its position then; their positions are lines in it.

        Raises
        ------
        DamagedError
            If anything about them is impossible.
        """
        for start, size, n_rows, n_entries in self._places[block]:
            ends = np.zeros(n_rows + 1, np.int64)
            target = codec.Target(
                0, ends[1:], np.empty(n_entries, np.uint32), np.empty(n_entries, manifest.dtype),
                np.empty(n_rows), np.empty(n_rows), np.empty(n_rows, np.int64),
                np.empty(n_rows if manifest.weighted else 0),
            )  # fmt: skip
            data = self._data[start : start + size].data
            try:
                codec.decode(data, target, manifest.n_features, 0)
            except (DamagedError, ValueError, *codec.DECODING_ERRORS) as error:
                raise DamagedError(
                    f"the rows near the margin that the run left are damaged: {error}",
                    "train without --warm-start",
                ) from error
            yield Rows(
                target.row_numbers, ends[:-1], ends[1:], target.sq_norm, target.labels,
                target.indices, target.values, target.weights if manifest.weighted else None,
            )  # fmt: skip


def joined(parts: Sequence[Rows]) -> Rows:
    """Return rows one after the other, whose entries lie likewise."""
    offsets = np.cumsum([0] + [len(part.indices) for part in parts])[:-1].tolist()
    shifted = list(zip(parts, offsets, strict=True))
    together: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("positions", "sq_norm", "labels", "indices", "values")
    }
    weights = [part.weights for part in parts if part.weights is not None]
    return Rows(
        starts=np.concatenate([part.starts + offset for part, offset in shifted]),
        stops=np.concatenate([part.stops + offset for part, offset in shifted]),
        weights=np.concatenate(weights) if weights else None,
        **together,
    )
