"""What manifests list: files of blocks, of columns and of features."""

from dataclasses import dataclass, field
from typing import Any

IN_FILE = "in file"
"""Metadata of a field: its name in the manifest, where that is another."""


@dataclass(frozen=True)
class BlockRecord:
    """One block file.

    Attributes
    ----------
    name : str                file name in ``blocks/``
    batch : str               the batch that brought its rows in
    rows, nnz : int
    bytes : int               on disk
    max_index : int           largest index stored in its rows, -1 if none
    table : str               CRC-32 (hex) of its chunk table, which holds a checksum of each chunk
    envelope_sha256 : str     of the whole file but its chunks, which have checksums in the table;
                              ``sha256`` in the manifest
    label_counts : list[int]  rows per label of the store's label table; empty without a table
    weights : dict            statistics of the weights of its rows; not written if there are none
    """

    name: str
    batch: str
    rows: int
    nnz: int
    bytes: int
    max_index: int
    table: str
    envelope_sha256: str = field(metadata={IN_FILE: "sha256"})
    label_counts: list[int]
    weights: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ColumnRecord:
    """One file of columns.

    Attributes
    ----------
    name : str                file name in ``columns/``
    first, features : int     its first feature number, and how many it has
    nnz : int
    bytes : int               on disk
    table : str               CRC-32 (hex) of its chunk table, which holds a checksum of each chunk
    sha256 : str              of the whole file but its chunks
    """

    name: str
    first: int
    features: int
    nnz: int
    bytes: int
    table: str
    sha256: str

    @property
    def stop(self) -> int:
        """The feature number after its last."""
        return self.first + self.features

    @property
    def rows(self) -> int:
        """What the columns are in its chunks."""
        return self.features

    @property
    def envelope_sha256(self) -> str:
        """`sha256`, by the name that block files have for it."""
        return self.sha256


ChunkFile = BlockRecord | ColumnRecord
"""A file of chunks, be they of rows or of columns."""


@dataclass(frozen=True)
class FeatureFile:
    """A file with the index in the input of some feature numbers.

    Attributes
    ----------
    name : str                file name in ``features/``
    features : int
    bytes : int
    sha256 : str              of the file
    """

    name: str
    features: int
    bytes: int
    sha256: str
