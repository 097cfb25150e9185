"""Random histories of a store, against a plain account of which rows are in it."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from blocklinear.ingest.add import add
from blocklinear.ingest.compact import compact
from blocklinear.options import AddOptions
from blocklinear.store.changes import remove
from blocklinear.store.store import BlockStore
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.garbage import collect_garbage

from .build import all_rows, load, make_store, small_text_options

LINES = st.lists(
    st.tuples(
        st.sampled_from([-1, 1, 2, 5]), st.dictionaries(st.integers(1, 40), st.integers(1, 9))
    ),
    min_size=1,
    max_size=25,
)


class History(RuleBasedStateMachine):
    """`rows` is {row number: (batch, label, {column: value})}."""

    def __init__(self):
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name)
        self.rows, self.n_texts, self.n_features, self.next_row = {}, 0, 0, 0
        self.seen_labels = []
        self.alpha = set()  # rows that a run has a line for

    def teardown(self):
        self._folder.cleanup()

    @property
    def store(self):
        return BlockStore.open(self.path / "store")

    def text(self, lines):
        """Text that differs from all others, by a feature of its own."""
        self.n_texts += 1
        lines = [*lines, (1, {100 + self.n_texts: 1})]
        rows = [
            " ".join([f"{y}", *(f"{i}:{v / 8}" for i, v in sorted(x.items()))]) for y, x in lines
        ]
        return lines, "".join(f"{row}\n" for row in rows).encode()

    def came(self, batch, lines):
        for label, entries in lines:
            row = {i - 1: v / 8 for i, v in entries.items()}
            self.rows[self.next_row] = (batch, float(label), row)
            self.next_row += 1
            self.n_features = max([self.n_features, *entries])
            if label not in self.seen_labels:
                self.seen_labels.append(label)

    @initialize(
        lines=LINES, blocks=st.integers(1, 6), compression=st.sampled_from(["none", "zstd"])
    )
    def split(self, lines, blocks, compression):
        lines, text = self.text(lines)
        make_store(self.path, text, blocks=blocks, compression=compression)
        self.came("b1", lines)

    @rule(lines=LINES, blocks=st.none() | st.integers(1, 4))
    def add(self, lines, blocks):
        lines, text = self.text(lines)
        (self.path / "more").write_bytes(text)
        options = AddOptions(small_text_options(index_base="auto"), blocks=blocks)
        store = add(self.store, [self.path / "more"], options)
        self.came(store.manifest.batches[-1]["name"], lines)

    @precondition(lambda self: len({batch for batch, *_ in self.rows.values()}) > 1)
    @rule(data=st.data())
    def remove_a_batch(self, data):
        name = data.draw(st.sampled_from([b["name"] for b in self.store.manifest.batches]))
        left = {k: row for k, row in self.rows.items() if row[0] != name}
        if left:
            remove(self.store, [name])
            self.rows = left

    @rule(data=st.data())
    def remove_a_block(self, data):
        m = self.store.manifest
        position = data.draw(st.integers(0, len(m.blocks) - 1))
        gone = load(self.path / "store", m, [position]).row_numbers.tolist()
        if len(gone) < m.n_rows:
            remove(self.store, blocks=[m.blocks[position].name])
            for number in gone:
                del self.rows[number]

    @rule(size=st.integers(200, 20_000))
    def compact(self, size):
        compact(self.store, size)

    @rule(data=st.data())
    def merge_batches(self, data):
        names = [batch["name"] for batch in self.store.manifest.batches]
        chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        new = f"m{self.store.manifest.generation}"
        compact(self.store, 5000, (new, chosen))
        self.rows = {
            k: (new if batch in chosen else batch, *row) for k, (batch, *row) in self.rows.items()
        }

    @rule()
    def train(self):
        """A run leaves an alpha for each row: its number."""
        m, run = self.store.manifest, self.path / "store" / "runs" / "r"
        run.mkdir(parents=True, exist_ok=True)
        numbers = load(self.path / "store", m, range(len(m.blocks))).row_numbers
        facts = {"blocks": [[block.name, block.rows] for block in m.blocks]}
        Checkpoint(run).save(facts, {"alpha": numbers.astype(float)})
        self.alpha = set(numbers.tolist())

    @rule()
    def gc(self):
        collect_garbage(self.store)
        assert self.store.manifest.removed == []
        assert self.store.verify().unused_files == []
        labels = {label for _, label, _ in self.rows.values()}
        self.seen_labels = [label for label in self.seen_labels if label in labels]
        assert self.store.manifest.labels == self.seen_labels
        self.alpha = {number for number in self.alpha if number in self.rows}
        known, lines = self._alpha()
        assert set(known) == set(lines.tolist()) == self.alpha

    def _alpha(self):
        """Return the rows of the store that the run knows, with their alpha; and all it has."""
        run, m = Checkpoint(self.path / "store" / "runs" / "r"), self.store.manifest
        blocks = (run.facts or {"blocks": []})["blocks"]
        lines = np.zeros(sum(rows for _, rows in blocks))
        if run.facts:
            run.load({"alpha": lines})
        position = {block.name: k for k, block in enumerate(m.blocks)}
        known, start = {}, 0
        for name, rows in blocks:
            new, first = m.moved.get(name, [name, 0])
            if new in position:
                numbers = load(self.path / "store", m, [position[new]]).row_numbers
                part = numbers[first : first + rows].tolist()
                known |= dict(zip(part, lines[start : start + rows].tolist(), strict=True))
            start += rows
        return known, lines

    @invariant()
    def the_rows_are_those_there_should_be(self):
        if not self.rows:
            return
        store = self.store
        assert all_rows(store.folder, store.manifest) == {
            k: (label, row) for k, (_, label, row) in self.rows.items()
        }
        report = store.verify()
        assert (report.faults, report.rows) == ([], len(self.rows))

    @invariant()
    def the_statistics_are_right(self):
        if not self.rows:
            return
        m = self.store.manifest
        assert (m.n_rows, m.next_row, m.dimension) == (
            len(self.rows), self.next_row, self.n_features,
        )  # fmt: skip
        assert m.nnz == sum(len(row) for _, _, row in self.rows.values())
        counts = [
            sum(label == found for _, label, _ in self.rows.values()) for found in self.seen_labels
        ]
        assert (m.labels, m.label_counts) == (self.seen_labels, counts)
        batches = {}
        for batch, *_ in self.rows.values():
            batches[batch] = batches.get(batch, 0) + 1
        assert {b["name"]: b["rows"] for b in m.batches if b["rows"]} == batches
        for described in self.store.batches():
            labels = described["labels"]
            assert sum(found["rows"] for found in labels) == described["rows"]
        files = {path.name for path in self.store.blocks_folder.iterdir()}
        assert {block.name for block in (*m.blocks, *m.removed)} <= files
        assert not {f"b{n:08d}.blk" for n in range(m.next_block, m.next_block + 9)} & files

    @invariant()
    def alpha_follows_its_row(self):
        if not self.rows:
            return
        known, _ = self._alpha()
        assert set(known) == self.alpha & set(self.rows) if self.alpha else not known
        assert all(number == value for number, value in known.items())


TestHistories = History.TestCase
TestHistories.settings = settings(
    max_examples=10,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
