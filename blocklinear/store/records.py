"""What a manifest lists: block files and feature files."""

from dataclasses import dataclass, field
from typing import Any, Protocol

IN_FILE = "in file"
"""Metadata of a field: its name in the manifest, where that is another."""


class ChunkFile(Protocol):
    """What is recorded of a file of chunks, be they of rows or of columns."""

    @property
    def name(self) -> str:
        """File name."""

    @property
    def rows(self) -> int:
        """Rows, or columns."""

    @property
    def nnz(self) -> int:
        """Entries."""

    @property
    def bytes(self) -> int:
        """On disk."""

    @property
    def table(self) -> str:
        """CRC-32 (hex) of the chunk table."""

    @property
    def envelope_sha256(self) -> str:
        """Of the file without its chunks."""


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
