"""Small stores and hand-made chunks for the tests of this folder."""

import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from blocklinear.ingest.split import split
from blocklinear.ingest.writer import BatchWriter
from blocklinear.options import SplitOptions, TextOptions
from blocklinear.store.blocks import BlockReader, BlockWriter
from blocklinear.store.features import read_features, write_features
from blocklinear.store.groups import GroupBuffer
from blocklinear.store.manifest import Manifest
from blocklinear.text.rows import parse

_POOL = ThreadPoolExecutor(2)
DATE = "2026-01-01T00:00:00Z"
TEXT = b"""\
1 1:0.5 3:-2 7:1e-3
-1 2:3.14159
1
-1 1:-1 2:0.12345678901234567 900:12345.678
1 4:7
-1 1:1 2:1 3:1
1 900:-0.25
"""


def rows_of(text, index_base=1):
    """Parse LIBSVM text held in memory."""
    rows = parse(np.frombuffer(bytearray(text + b"\n"), np.uint8), index_base)
    assert not rows.faults
    return rows


def small_text_options(**options):
    return TextOptions(**({"threads": 2, "memory_bytes": 256 << 20} | options))


def make_store(folder, text=TEXT, name="store", text_options=None, **options):
    """Split `text` into a store in `folder`."""
    source = folder / f"{name}.svm"
    source.write_bytes(text)
    options = {"blocks": 3, "compression": "none"} | options
    text_options = text_options or small_text_options()
    return split([source], folder / name, SplitOptions(text=text_options, **options))


def write_batch(folder, pieces, plan, index_base=1, threads=2, numbering=None, **options):
    """Write rows, given as pieces of text, with a plan of our choice; return their manifest."""
    options = SplitOptions(
        text=small_text_options(threads=threads, index_base=index_base), **options
    )
    (folder / "blocks").mkdir(parents=True)
    with ThreadPoolExecutor(threads) as pool:
        writer = BatchWriter(folder / "blocks", plan, options, pool, numbering=numbering)
        for piece in pieces:
            writer.append(rows_of(piece, index_base))
        blocks, labels = writer.finish()
    features = []
    if numbering is not None:
        features = [write_features(folder, 0, numbering.new_indices(), None)]
    dimension = writer.max_index - index_base + 1
    manifest = Manifest(
        format=1 if numbering is None else 3,
        generation=1,
        written_by="0.1.0",
        seed=options.seed,
        order=options.order,
        index_base=index_base,
        hash_bits=0,
        n_features=dimension if numbering is None else len(numbering),
        n_rows=writer.n_rows,
        nnz=writer.nnz,
        next_row=writer.next_row,
        next_block=writer.next_block,
        dtype=options.dtype,
        compression=options.compression,
        normalize=options.normalize,
        labels=labels,
        batches=[{"name": "b1", "date": DATE, "rows": writer.n_rows, "sources": []}],
        blocks=blocks,
        dimension=dimension,
        features=features,
    )
    manifest.save(folder)
    return manifest


def load(folder, manifest, blocks):
    """Load blocks (positions) as one group; columns are those of the input."""
    records = [manifest.blocks[b] for b in blocks]
    rows, nnz = sum(r.rows for r in records), sum(r.nnz for r in records)
    buffer = GroupBuffer(rows, nnz, manifest.dtype, manifest.weighted)
    with BlockReader(folder / "blocks", 1) as reader:
        return in_input(folder, manifest, buffer.load(reader, manifest, blocks, _POOL))


def in_input(folder, manifest, group):
    """Return a group whose columns, which increase in a row, are those of the input."""
    rows = np.split(group.indices.astype(int), group.indptr[1:-1])
    assert all((np.diff(row) > 0).all() for row in rows)
    indices = read_features(folder, manifest)
    if indices is None:
        return group
    return replace(group, indices=indices[group.indices] - np.uint32(manifest.index_base))


def rows_in(group):
    """Return the rows of a group: {row number: (label, {column: value})}."""
    rows = {}
    for i, number in enumerate(group.row_numbers.tolist()):
        part = slice(group.indptr[i], group.indptr[i + 1])
        entries = zip(group.indices[part].tolist(), group.values[part].tolist(), strict=True)
        rows[number] = (float(group.labels[i]), dict(entries))
    assert len(rows) == group.n_rows
    return rows


def all_rows(folder, manifest):
    return rows_in(load(folder, manifest, range(len(manifest.blocks))))


def expected_rows(text, index_base=1, dtype=np.float64):
    """Read LIBSVM text the slow way."""
    rows = {}
    for number, line in enumerate(text.decode().splitlines()):
        label, *entries = line.split()
        pairs = (entry.split(":") for entry in entries)
        rows[number] = (
            float(label),
            {int(i) - index_base: float(dtype(float(v))) for i, v in pairs if float(v)},
        )
    return rows


def random_text(n_rows, seed=0, n_features=500, per_row=8):
    """Text with labels 1 2 3, values of few and of many digits, and some empty rows."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n_rows):
        chosen = np.sort(rng.choice(n_features, rng.integers(0, per_row), replace=False)) + 1
        values = rng.normal(size=len(chosen))
        words = [
            f"{i}:{v:.4g}" if i % 5 else f"{i}:{v!r}"
            for i, v in zip(chosen.tolist(), values.tolist(), strict=True)
        ]
        lines.append(" ".join([str(rng.integers(1, 4)), *words]))
    return ("\n".join(lines) + "\n").encode()


def tree(folder):
    """Return {relative path: bytes} of every file of a store, but for its lock."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class HandMadeChunk:
    """A chunk put together byte by byte: three rows of 2, 1 and 0 entries, to be spoiled."""

    def __init__(self):
        self.fields = {
            "magic": b"BLKC", "rows": 3, "nnz": 3, "doubles": 0, "label_doubles": 0, "first_row": 0,
            "length_width": 1, "row_width": 0, "label_width": 1, "gap_bits": 8, "bits": 8,
            "code_bits": 8, "flags": 0,
        }  # fmt: skip
        self.lengths = bytes([2, 1, 0])
        self.row_gaps = b""
        self.labels = bytes([1, 2, 1])
        self.label_exponents = bytes([0, 0, 0])
        self.label_doubles = b""
        self.gaps = [bytes([1, 1, 1])]
        self.mantissas = [bytes([5, 6, 7])]
        self.doubles = []
        self.exponents = bytes([0, 1])
        self.codes = bytes([0, 1, 0])
        self.n_frames = None
        self.frame_lengths = None
        self.pack = bytes  # or a compressor

    def __bytes__(self):
        per_row = (
            self.lengths + self.row_gaps + self.labels + self.label_exponents + self.label_doubles
        )
        frames = [per_row, *self.gaps, *self.mantissas, *self.doubles, self.codes]
        packed = [self.pack(frame) for frame in frames]
        lengths = self.frame_lengths or [len(frame) for frame in packed]
        n_frames = len(packed) if self.n_frames is None else self.n_frames
        fields = *self.fields.values(), len(self.exponents), n_frames
        header = struct.pack("<4sIIIIQ6BBBH", *fields) + self.exponents
        return header + struct.pack(f"<{len(lengths)}I", *lengths) + b"".join(packed)


def store_of_chunk(folder, data, rows=3, nnz=3, **changes):
    """Make a store of one chunk, every checksum right."""
    (folder / "blocks").mkdir(parents=True)
    writer = BlockWriter(folder / "blocks", 0)
    writer.append([data], rows, nnz, max_index=3)
    record = writer.finish("b1")
    facts = {
        "format": 1, "generation": 1, "written_by": "0.1.0", "seed": 0, "order": "random",
        "index_base": 1, "hash_bits": 0, "n_features": 3, "n_rows": rows, "nnz": nnz,
        "next_row": 100, "next_block": 1, "dtype": "float64", "compression": "none",
        "normalize": "none", "labels": None,
        "batches": [{"name": "b1", "date": DATE, "rows": rows, "sources": []}],
        "blocks": [record], "removed": [], "moved": {},
    } | changes  # fmt: skip
    manifest = Manifest(**facts)
    manifest.save(folder)
    return manifest
