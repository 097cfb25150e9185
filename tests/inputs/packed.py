"""Text as it is packed, and what became of it."""

import bz2
import gzip
import lzma

import zstandard

PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def blocks_of(store):
    """Return the files of the rows of a store."""
    return {path.name: path.read_bytes() for path in store.blocks_folder.iterdir()}
