"""The column store: ``columns/`` in a store, a cache of the entries of its rows by feature.

`columns.json` is a JSON object ``{"checksum": sha256, "columns": {...}}``, the checksum over the
canonical JSON of the inner object (sorted keys, no blanks). The folder is made as a whole and never
changed; where it does not fit the store, or is of another format, it does not count.

A file ``columns/c<k>.blk`` is laid out as a block file, and its chunks are those of a block, with
rows and columns exchanged. A "row" of a chunk is a feature: its number is the feature
number that it has in the blocks, its label is 0, its entries are those of all rows that have it.
The "indices" of these are places of rows: rows are counted from 0 through all blocks in the order
of the store's manifest, and within a block as they lie there. The chunks of all files together hold
every feature number once, in order, those included that have no entries.

If rows are divided by their norm when they are read, ``norms.f64`` has what each row is divided by:
first a unit, which is 1 unless the squares of the row might overflow or vanish, then its norm. It
holds all units, then all norms, float64, little-endian, in the order of the rows.
"""

import re
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from blocklinear import __version__
from blocklinear.errors import DamagedError, storage_errors
from blocklinear.memory import format_size
from blocklinear.numerals import counted
from blocklinear.store import shapes
from blocklinear.store.blocks import COLUMNS
from blocklinear.store.changes import COLUMNS_NAMES
from blocklinear.store.files import read_regular, write_whole
from blocklinear.store.manifest import MAX_EXPANSION, Manifest, sealed, unsealed
from blocklinear.store.records import ColumnRecord

FORMAT = 1
FOLDER, BUILDING = COLUMNS_NAMES
"""The folder in a store, and its name while it is made."""
NAME, NORMS = "columns.json", "norms.f64"
_MOST_BYTES = 1 << 28
_BLOCK_NAME = re.compile(rf"{COLUMNS}[0-9]{{8}}\.blk")
_BLOCK = shapes.fields(
    {"name": shapes.text, "first": shapes.count, "features": shapes.integer(1),
     "nnz": shapes.count, "bytes": shapes.count, "table": shapes.text, "sha256": shapes.text}
)  # fmt: skip
_COLUMNS = shapes.fields(
    {"format": shapes.integer(FORMAT, FORMAT), "written_by": shapes.text, "store": shapes.text,
     "dtype": shapes.text, "normalize": shapes.text, "n_rows": shapes.count,
     "n_features": shapes.count, "nnz": shapes.count, "norms": shapes.maybe(shapes.text),
     "blocks": shapes.items(_BLOCK)}
)  # fmt: skip
RENEW = "make the columns again: `blocklinear transpose --force STORE`, or delete the folder"


@dataclass(frozen=True)
class ColumnManifest:
    """What a column store holds.

    Attributes
    ----------
    store : str               the fingerprint of the store
    dtype, normalize : str    of the store
    n_rows, n_features, nnz : int       of the store
    norms : str or None       SHA-256 of the file of norms, if rows are normalised
    blocks : list[ColumnRecord]     in the order of their features
    format : int
    written_by : str          version that wrote it
    """

    store: str
    dtype: str
    normalize: str
    n_rows: int
    n_features: int
    nnz: int
    norms: str | None
    blocks: list[ColumnRecord] = field(default_factory=list)
    format: int = FORMAT
    written_by: str = __version__

    @classmethod
    def of(cls, manifest: Manifest, norms: str | None, blocks: Sequence[ColumnRecord] = ()) -> Self:
        """Return what a column store of a store says."""
        return cls(
            manifest.fingerprint, manifest.dtype, manifest.normalize, manifest.n_rows,
            manifest.n_features, manifest.nnz, norms, list(blocks),
        )  # fmt: skip

    @property
    def total_bytes(self) -> int:
        """Of all files of columns and of the norms."""
        return sum(block.bytes for block in self.blocks) + self.norms_bytes

    def summary(self) -> str:
        """Return it as a sentence."""
        size = format_size(self.total_bytes)
        each = self.total_bytes / max(self.nnz, 1)
        files = counted(len(self.blocks), "file")
        return f"columns: {files}, {size} on disk ({each:.2f} bytes an entry)"

    @property
    def norms_bytes(self) -> int:
        """Of the file of norms."""
        return 0 if self.norms is None else 16 * self.n_rows

    def save(self, folder: Path) -> None:
        """Write it to `folder`, durably."""
        write_whole(folder / NAME, [sealed("columns", asdict(self))])

    @classmethod
    def load(cls, store: Path, manifest: Manifest) -> Self | None:
        """Read and check what the store in folder `store` has; None if there are no columns of it.

        Raises
        ------
        DamagedError
            If it is altered or inconsistent.
        StorageError
        """
        folder = store / FOLDER
        path = folder / NAME
        with storage_errors(path, "read"):
            try:
                if stat.S_ISLNK(folder.lstat().st_mode):
                    raise DamagedError(f"{folder}: is a link, which could lead anywhere", RENEW)
                text = read_file(path, _MOST_BYTES)
            except (FileNotFoundError, NotADirectoryError):
                return None
        try:
            found = cls._from_json(text, manifest)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DamagedError(f"{path}: damaged: {error}", RENEW) from error
        return found

    @classmethod
    def _from_json(cls, text: bytes, manifest: Manifest) -> Self | None:
        inner = unsealed("columns", text, "a manifest of columns")
        known = {"store": shapes.text, "format": shapes.count}
        shapes.fields(known, more=True)(inner, "")
        if inner["format"] != FORMAT or inner["store"] != manifest.fingerprint:
            return None
        _COLUMNS(inner, "")
        blocks = [ColumnRecord(**block) for block in inner["blocks"]]
        columns = cls(**{**inner, "blocks": blocks})
        kind = manifest.dtype, manifest.normalize, manifest.n_features
        if (columns.dtype, columns.normalize, columns.n_features) != kind:
            return None
        columns._check_consistency(manifest)
        return columns

    def _check_consistency(self, manifest: Manifest) -> None:
        """Raise ValueError where the parts contradict each other or the store."""
        if (self.n_rows, self.nnz) != (manifest.n_rows, manifest.nnz):
            raise ValueError("its counts are not those of the store")
        if (self.norms is None) != (self.normalize == "none"):
            raise ValueError("it has norms and needs none, or the other way round")
        feature = 0
        for k, block in enumerate(self.blocks):
            if block.name != f"{COLUMNS}{k:08d}.blk" or not _BLOCK_NAME.fullmatch(block.name):
                raise ValueError("a file has another name than any by blocklinear")
            if block.first != feature:
                raise ValueError("the features of a file do not follow those before")
            if max(block.features, block.nnz) > block.bytes * MAX_EXPANSION:
                raise ValueError("a file has more features or entries than its bytes can hold")
            feature = block.stop
        if feature != self.n_features or self.nnz != sum(block.nnz for block in self.blocks):
            raise ValueError("the features or entries of the files do not add up")


def read_file(path: Path, most_bytes: int) -> bytes:
    """Return the content of a file of columns.

    DamagedError is raised if it is no regular file, or longer than that; OSError if it cannot be
    read, as when it is not there.
    """
    try:
        return read_regular(path, most_bytes)
    except DamagedError as error:
        raise DamagedError(error.what, RENEW) from error
