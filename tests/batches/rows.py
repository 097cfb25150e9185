"""Rows as text and as batches, and what a store made of them."""

import hashlib

import numpy as np
from scipy.sparse import random_array

from blocklinear.batches.writer import StoreWriter
from blocklinear.ingest.split import split
from blocklinear.numerals import format_number
from blocklinear.options import SplitOptions, TextOptions

N_ROWS, N_COLUMNS = 3500, 41


def make_options(dtype="float64", order="random", normalize="none", renumber=True, **text):
    """Options of both, for a small store."""
    text = {"threads": 2, "memory_bytes": 256 << 20} | text
    return SplitOptions(
        text=TextOptions(**text), dtype=dtype, order=order, normalize=normalize, renumber=renumber,
        compression="none", force=True,
    )  # fmt: skip


def make_rows(seed=0, n_rows=N_ROWS, n_columns=N_COLUMNS, density=0.1):
    """A CSR matrix with values of all kinds, and labels; the last column occurs."""
    rng = np.random.default_rng(seed)
    X = random_array((n_rows, n_columns), density=density, format="csr", rng=rng)
    X.sort_indices()
    kinds = rng.integers(0, 5, X.nnz)
    X.data[:] = np.select(
        [kinds == 0, kinds == 1, kinds == 2, kinds == 3],
        [1.0, np.round(rng.normal(size=X.nnz), 3), rng.integers(-9, 10**6, X.nnz) + 0.5, 1e-30],
        rng.normal(size=X.nnz) * 10.0 ** rng.integers(-40, 40, X.nnz),
    )
    return X, rng.integers(-1, 2, n_rows)


def as_text(X, y):
    """The rows as text, numbers as short as they can be."""
    ends, lines = X.indptr.tolist(), []
    for label, start, stop in zip(np.asarray(y).tolist(), ends[:-1], ends[1:], strict=True):
        part = slice(start, stop)
        pairs = zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True)
        entries = [f"{j + 1}:{format_number(value)}" for j, value in pairs]
        lines.append(" ".join([format_number(label), *entries]))
    return "\n".join(lines) + "\n"


def split_text(folder, text, options, name="text"):
    """Split text into a store."""
    source = folder / f"{name}.svm"
    source.write_text(text)
    return split([source], folder / name, options)


def append(folder, batches, options, name="batches"):
    """Write batches, each the arguments of `append`, to a store."""
    with StoreWriter(folder / name, options) as writer:
        for batch in batches:
            writer.append(*batch)
    return writer.store


def files(store):
    """The blocks and the numbers of features, byte for byte, by their names."""
    found = {}
    for pattern in ("blocks/*", "features/*.map"):
        for path in sorted(store.folder.glob(pattern)):
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def blocks(store):
    """The blocks alone, byte for byte."""
    return {name: digest for name, digest in files(store).items() if name.endswith(".blk")}
