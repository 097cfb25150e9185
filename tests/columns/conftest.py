"""Stores of rows that say something about columns."""

import numpy as np
import pytest

from blocklinear.columns import transpose as transposing
from blocklinear.ingest.split import split
from blocklinear.options import SplitOptions, TextOptions
from blocklinear.store.blocks import BlockReader
from blocklinear.store.groups import GroupBuffer

MEMORY = 1 << 30
KINDS = {
    "plain": {},
    "uncompressed": {"compression": "none"},
    "float32": {"dtype": "float32"},
    "normalized": {"normalize": "l2"},
    "normalized float32": {"normalize": "l2", "dtype": "float32"},
    "in order": {"order": "file"},
}


def text_of(n_rows, seed=0, n_features=400, per_row=12, numbers="mixed"):
    """Return rows whose features are of many frequencies, with values of few and many digits."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n_rows):
        chosen = np.unique((n_features * rng.random(rng.integers(0, per_row)) ** 3).astype(int))
        values = rng.normal(size=len(chosen))
        if numbers == "few":
            words = [f"{j + 1}:{v:.3g}" for j, v in zip(chosen, values, strict=True)]
        else:
            words = [
                f"{j + 1}:{v * 1e-160 if j % 50 == 7 else v if j % 5 == 0 else f'{v:.4g}'}"
                for j, v in zip(chosen.tolist(), values.tolist(), strict=True)
            ]
        lines.append(" ".join([str(1 - 2 * (i % 2)), *words]))
    return "\n".join(lines) + "\n"


def store_of(folder, text, name="store", **options):
    """Split text to a store of several blocks."""
    (folder / f"{name}.svm").write_text(text)
    reading = TextOptions(threads=2, memory_bytes=256 << 20)
    options = {"blocks": 5} | options
    return split([folder / f"{name}.svm"], folder / name, SplitOptions(text=reading, **options))


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    """A store of each kind."""
    return store_of(tmp_path, text_of(300), **KINDS[request.param])


@pytest.fixture
def small_chunks(monkeypatch):
    """Let chunks and files of columns be small enough that there are many."""
    for name, value in {
        "CHUNK_ENTRIES": 40, "CHUNK_FEATURES": 30, "BLOCK_ENTRIES": 300, "BLOCK_FEATURES": 100
    }.items():  # fmt: skip
        monkeypatch.setattr(transposing, name, value)


def triplets_of_rows(store):
    """Return {(place of the row, feature number): value} as solvers over rows see them."""
    from concurrent.futures import ThreadPoolExecutor

    m, found = store.manifest, {}
    first = m.first_positions
    with BlockReader(store.blocks_folder, 1) as reader, ThreadPoolExecutor(1) as pool:
        for position, record in enumerate(m.blocks):
            buffer = GroupBuffer(record.rows, record.nnz, m.dtype, m.weighted)
            group = buffer.load(reader, m, [position], pool)
            for i in range(group.n_rows):
                for p in range(group.indptr[i], group.indptr[i + 1]):
                    key = int(first[position] + i), int(group.indices[p])
                    found[key] = group.values[p]
    return found


def triplets_of_columns(columns, wanted=None):
    """Return the same of columns; see that they are in order."""
    found = {}
    for block in range(len(columns.blocks)):
        part = columns.read(block, wanted)
        assert len(part.starts) == part.n_columns + 1
        assert part.starts[0] == 0
        assert (np.diff(part.features.astype(int)) > 0).all()
        for j in range(part.n_columns):
            inside = slice(part.starts[j], part.starts[j + 1])
            rows = part.rows[inside].astype(int)
            assert (np.diff(rows) > 0).all()
            for i, value in zip(rows.tolist(), part.values[inside], strict=True):
                found[i, int(part.features[j])] = value
            squares = part.values[inside].astype(float) ** 2
            assert part.sq_norm[j] == pytest.approx(squares.sum(), rel=1e-12)
    return found


def content(folder):
    """Return {name: bytes} of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
