"""What appending takes in memory, where the system counts it and kills whoever takes more."""

import sys

import pytest
from bench.conftest import load

PROGRAM = """
import sys
import numpy as np
from scipy.sparse import csr_array
from blocklinear import SplitOptions, StoreWriter, TextOptions

kind, n_batches, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
options = SplitOptions(text=TextOptions(memory_bytes=224 << 20, threads=2))
n, width = (1 << 14, 20) if kind == "sparse" else (1 << 12, 100)
with StoreWriter(path, options) as writer:
    for k in range(n_batches):
        rng = np.random.default_rng(k)
        values = np.round(rng.normal(size=(n, width)), 4) + 0.00001
        if kind == "sparse":
            columns = np.sort(rng.integers(0, 1 << 20, (n, width)).astype(np.int32), axis=1)
            columns += np.arange(width, dtype=np.int32)
            ends = np.arange(0, n * width + 1, width)
            X = csr_array((values.ravel(), columns.ravel(), ends), shape=(n, (1 << 20) + width))
        else:
            X = values
        writer.append(X, rng.integers(0, 2, n))
print(writer.store.manifest.n_rows, "rows")
"""


@pytest.mark.parametrize(
    ("kind", "n_batches", "rows"), [("sparse", 40, 655_360), ("dense", 60, 245_760)]
)
def test_appending_keeps_to_its_memory(disk, kind, n_batches, rows):
    """13 and 20 million entries, which take 160 and 200 MB in memory, below 224 MiB."""
    limits, program = load("limits"), disk / "program.py"
    program.write_text(PROGRAM)
    with limits.limited(cold=False) as run:  # kernels are compiled where there is memory for it
        run([sys.executable, program, kind, "1", disk / f"{kind} few"], capture=True)
    try:
        with limits.limited(memory="224M", cold=False) as run:
            done = run([sys.executable, program, kind, str(n_batches), disk / kind], capture=True)
    except limits.LimitsUnavailable as reason:
        pytest.skip(str(reason))
    assert (done.returncode, done.oom_kills) == (0, 0), done.stderr
    assert done.stdout == f"{rows} rows\n"
