"""Kill processes that change a store, and look at what they leave.

``python kills.py [--random N] [--every K]`` kills add, remove, gc, compact, transpose and a split
that replaces the store, with and without an exchange of names, at every K-th of their file
operations, and N times each at two random ones, the second time in the rerun. After each kill the
store must open, verify and hold what it held before or what it should hold after; and the same
command again must finish it. Prints how many kills there were, as JSON.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np

from blocklinear import (
    AddOptions,
    BlockStore,
    SplitOptions,
    TextOptions,
    add,
    collect_garbage,
    compact,
    remove,
    split,
    transpose,
)
from blocklinear.columns import transpose as transposing
from blocklinear.columns.store import open_columns
from blocklinear.errors import DamagedError
from blocklinear.ingest.compact import read_block
from blocklinear.store import files
from blocklinear.store.blocks import BlockFile
from blocklinear.store.features import read_features
from blocklinear.training.checkpoint import Checkpoint

sys.path.insert(0, str(Path(__file__).parents[1]))
from steps import Steps, watch

TEXT = TextOptions(index_base="auto", threads=1, memory_bytes=256 << 20)
SECRET = 1234.56789
OPERATIONS = ("add", "remove", "gc", "compact", "transpose", "split", "split one by one")


def rows(first, n, label=1):
    """Text that no other call returns."""
    lines = (
        f"{label if i % 2 else -1} {1 + i % 7}:{i}.5 {9 + i % 5}:0.{i}1 {900 + label}:1"
        for i in range(first, first + n)
    )
    return "\n".join(lines) + "\n"


def prepare(folder):
    """Make a store of three batches and a run, and for each operation a store that waits for it."""
    texts = {"b1.svm": rows(1, 90), "secret.svm": rows(101, 40, 3), "b3.svm": rows(201, 50)}
    texts["new.svm"] = rows(301, 60, 2)
    for name, text in texts.items():
        (folder / name).write_text(text)
    base = folder / "base"
    options = SplitOptions(text=TextOptions(threads=1, memory_bytes=256 << 20), blocks=5)
    split([folder / "b1.svm"], base, options)
    add(base, [folder / "secret.svm"], AddOptions(TEXT, "secret", blocks=2))
    store = add(base, [folder / "b3.svm"], AddOptions(text=TEXT, blocks=3))
    run = base / "runs" / "default"
    run.mkdir(parents=True)
    blocks = [[b.name, b.rows] for b in store.manifest.blocks]
    batch_of_row = [b.batch for b in store.manifest.blocks for _ in range(b.rows)]
    alpha = np.where(np.array(batch_of_row) == "secret", SECRET, 0.5)
    for _ in range(2):  # both generations of files are there
        Checkpoint(run).save({"blocks": blocks, "course": {}}, {"alpha": alpha, "w": alpha + 1})
    transpose(base)
    for name in OPERATIONS:
        shutil.copytree(base, folder / name)
    remove(folder / "gc", ["secret"])
    (folder / "gc" / "blocks" / "b00009999.blk").write_bytes(b"left by a killed add")
    shutil.copytree(base / "columns", folder / "gc" / "columns")  # of rows that are gone


def in_buckets():
    """Let the entries of a few features be sorted at a time."""
    transposing.CHUNK_ENTRIES, transposing.BLOCK_ENTRIES = 100, 300
    transposing.MOST_PASSES = 1
    transposing._Transposition._require = lambda self, n_bytes: n_bytes


def perform(operation, store, inputs):
    """Do it; it may have been done already."""
    if operation == "add":
        add(store, [inputs / "new.svm"], AddOptions(TEXT, "new", blocks=3, if_absent=True))
    elif operation == "remove":
        remove(store, ["secret"], missing_ok=True)
    elif operation == "compact":
        compact(store, block_bytes=4000)
    elif operation == "transpose":
        in_buckets()
        transpose(store, threads=1, force=True)
    elif operation.startswith("split"):
        if operation == "split one by one":
            files._exchange_at_once = lambda source, target: False
        split([inputs / "new.svm"], store, SplitOptions(TEXT, blocks=3, force=True))
    else:
        collect_garbage(store)


def content(store):
    """Return {row number: (label, columns, values)}."""
    m, found = store.manifest, {}
    indices = read_features(store.folder, m)
    for record in m.blocks:
        part = read_block(BlockFile(store.blocks_folder, record), m)
        for i, number in enumerate(part.numbers.tolist()):
            entries = slice(part.indptr[i], part.indptr[i + 1])
            row = indices[part.indices[entries]].tolist(), part.values[entries].tolist()
            found[number] = (float(part.labels[i]), *row)
    assert len(found) == m.n_rows
    return found


def state(folder):
    """Return what a store holds that verifies; None if it has lost its name, but can be found."""
    try:
        store = BlockStore.open(folder)
    except DamagedError as error:
        if "a killed split left it as" not in str(error):
            raise
        return None
    assert store.verify().faults == [], store.verify().faults
    columns = open_columns(store)
    assert columns is None or columns.verify() == []
    return content(store)


def fork(work):
    """Run `work` in a process of its own; return its exit status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(f"failed: {error!r}", file=sys.stderr)
            os._exit(99)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Trial:
    """One operation, killed again and again on fresh copies of a store."""

    def __init__(self, operation, folder):
        self.operation, self.inputs = operation, folder
        self._start, self.store = folder / operation, folder / "trial"
        self._places = str(self.store), str(self.store.with_name(f".{self.store.name}."))
        self.before = state(self._start)
        self.kills = 0
        self._fresh()
        assert fork(self._perform) == 0
        self.after = state(self.store)

    def _perform(self):
        perform(self.operation, self.store, self.inputs)

    def _fresh(self):
        for left in (self.store, *self.store.parent.glob(f".{self.store.name}.*")):
            shutil.rmtree(left, ignore_errors=True)
        shutil.copytree(self._start, self.store)

    def steps(self):
        """Return how many file operations there are."""
        self._fresh()
        count = self.store.with_name("count")

        def work():
            steps = Steps(self._places)
            watch(steps)
            self._perform()
            count.write_text(str(steps.count))

        assert fork(work) == 0
        return int(count.read_text())

    def _killed(self, step):
        """Kill it at a file operation, unless it ends before; return whether it was killed."""

        def work():
            watch(Steps(self._places, step))
            self._perform()

        status = fork(work)
        assert status in (0, -signal.SIGKILL), (self.operation, step, status)
        self.kills += status != 0
        return status != 0

    def at_step(self, step):
        """Kill it at a file operation."""
        self._fresh()
        assert self._killed(step), (self.operation, step)
        self._look()

    def at_two_steps(self, step, step_of_rerun):
        """Kill it at a file operation, and then its rerun, which may be at its end before."""
        self._fresh()
        for one in (step, step_of_rerun):
            self._killed(one)
            self._check()
        self._look()

    def _check(self):
        found = state(self.store)
        if found is None and self.operation == "split one by one":
            found = state(self.store.with_name(f".{self.store.name}.replaced"))
        assert found in (self.before, self.after), f"{self.operation}: neither before nor after"

    def _look(self):
        self._check()
        self._perform()
        assert state(self.store) == self.after
        collect_garbage(self.store)
        assert state(self.store) == self.after
        self._look_for_leftovers()

    def _look_for_leftovers(self):
        store = BlockStore.open(self.store)
        m = store.manifest
        assert sorted(os.listdir(store.blocks_folder)) == sorted(b.name for b in m.blocks)
        features = sorted(os.listdir(self.store / "features"))
        assert features == [file.name for file in m.features]
        assert m.removed == []
        assert not list(self.store.parent.glob(".*"))
        if self.operation.startswith("split"):
            assert {p.name for p in self.store.iterdir()} == {
                "manifest.json",
                "blocks",
                "features",
                "lock",
            }
            return
        run = self.store / "runs" / "default"
        alive = {b.name for b in m.blocks} | set(m.moved)
        checkpoint = Checkpoint(run)
        assert all(name in alive for name, _ in checkpoint.facts["blocks"])
        expected = {"manifest.json", "blocks", "features", "runs", "lock"}
        expected |= {"columns"} if self.operation == "transpose" else set()
        assert {p.name for p in self.store.iterdir()} == expected
        alpha = np.zeros(sum(n for _, n in checkpoint.facts["blocks"]))
        checkpoint.load({"alpha": alpha})
        if self.operation in ("remove", "gc"):
            assert (alpha == 0.5).all()
            for path in self.store.rglob("*"):
                if path.is_file():
                    raw = path.read_bytes()
                    assert b"secret" not in raw, path
                    assert np.float64(SECRET).tobytes() not in raw, path
                    assert SECRET.hex().encode() not in raw, path


def main():
    """Run the trials; print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=30, help="kills of reruns, each")
    parser.add_argument("--every", type=int, default=1, help="kill at every K-th file operation")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    os.fsync = lambda descriptor: None  # processes that are killed lose nothing without it
    draw, kills = random.Random(arguments.seed), {}
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for operation in OPERATIONS:
            trial = Trial(operation, Path(folder))
            n = trial.steps()
            for step in range(draw.randrange(arguments.every), n, arguments.every):
                trial.at_step(step)
            n_steps = trial.kills
            for _ in range(arguments.random):
                trial.at_two_steps(draw.randrange(n), draw.randrange(n))
            kills[operation] = {"at operations": n_steps, "in all": trial.kills}
    print(json.dumps(kills))


if __name__ == "__main__":
    main()
