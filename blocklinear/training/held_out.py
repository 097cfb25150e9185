"""Held-out rows that a model is scored on while it is trained."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputError, MemoryBudgetError
from blocklinear.ingest.numbering import table_of
from blocklinear.inputs.raw import name_of, size_of
from blocklinear.inputs.urls import shown_name
from blocklinear.kernels.blocks.scaling import normalize_rows
from blocklinear.kernels.margins import decision_values
from blocklinear.memory import PROCESS_BYTES, RowsHeldOut, format_size
from blocklinear.model.metrics import AccuracyCounter, RegressionErrors, Score
from blocklinear.objectives.models import Models
from blocklinear.options import TextOptions, TrainOptions
from blocklinear.store.features import read_features
from blocklinear.store.store import BlockStore
from blocklinear.text import Rows, read_rows

Floats = NDArray[np.float64]
_VALUES_AT_A_TIME = 1 << 18  # decision values


class HeldOut:
    """Rows of a LIBSVM file, or of tables, kept in memory.

    InputError is raised if the text is malformed or has no rows, or a table does not fit the
    recipe; RowsTooLarge if they do not fit, when all have been counted.

    Parameters
    ----------
    path : str                for a store of tables: a table, a folder of them, or a pattern
    store : BlockStore        trained on: its recipe, or index base and hashing, its normalisation
                              and features apply
    options : TrainOptions    whose memory budget, less `room_bytes`, bounds what reading takes
    room_bytes : int          memory the rows may take

    Attributes
    ----------
    bytes : int               that they take
    """

    def __init__(
        self, path: str, store: BlockStore, task: Models, options: TrainOptions, room_bytes: int
    ) -> None:
        manifest = store.manifest
        self._task, self._index_base = task, manifest.column_base
        table = table_of(read_features(store.folder, manifest))
        found, besides = _rows(path, store, options, room_bytes)
        most = options.memory_bytes - PROCESS_BYTES - besides.reading_bytes
        most = min(most, room_bytes - besides.bytes)
        types = np.int64, np.uint32, np.float64, np.float64
        held: list[NDArray[Any]] = [np.empty(0, dtype) for dtype in types]
        self.bytes = 0
        for rows in found:
            self.bytes += 12 * rows.nnz + 24 * rows.n_rows
            if self.bytes > most:  # the rest is counted
                held.clear()
                continue
            lengths, values = np.diff(rows.indptr), rows.values()
            if manifest.normalize == "l2":
                normalize_rows(lengths, values, np.empty(rows.n_rows))
            indices = rows.indices.copy() if table is None else table.known(rows.indices)
            parts: tuple[NDArray[Any], ...] = lengths, indices, values, rows.labels()
            for array, part in zip(held, parts, strict=True):  # to join them later takes them twice
                array.resize(len(array) + len(part), refcheck=False)
                array[len(array) - len(part) :] = part
        if self.bytes > most:
            again = manifest.of_tables or size_of(name_of(path)) is not None
            raise RowsTooLarge(path, self.bytes, most, besides, again)
        if not self.bytes:
            what = f"{shown_name(path)}: has no rows to evaluate on"
            raise InputError(what, "name a file with rows")
        lengths, *self._entries, self._labels = held
        self._indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)

    def score(self, weights: Floats, bias: float) -> Score:
        """Compare what float64[n_features + 1, M] `weights` say with the labels."""
        columns = weights.reshape(len(weights), -1)
        score = RegressionErrors() if self._task.solver.regression else AccuracyCounter()
        n, step = len(self._labels), max(_VALUES_AT_A_TIME // columns.shape[1], 1)
        step = n if self._task.solver.regression else step  # sums of parts are rounded otherwise
        for start in range(0, n, step):
            labels = self._labels[start : start + step]
            decisions = np.empty((len(labels), columns.shape[1]))
            decision_values(
                self._indptr[start : start + len(labels) + 1], *self._entries, self._index_base,
                columns[:-1], bias * columns[-1], decisions,
            )  # fmt: skip
            score.add(labels, self._predicted(decisions))
        return score

    def _predicted(self, decisions: Floats) -> Floats:
        """Return the labels that decision values stand for, or values themselves."""
        if self._task.solver.regression:
            return decisions[:, 0]
        one = decisions.shape[1] == 1
        chosen = np.where(decisions[:, 0] > 0, 0, 1) if one else decisions.argmax(axis=1)
        found: Floats = np.array(self._task.labels)[chosen]
        return found


class RowsTooLarge(MemoryBudgetError):
    """Held-out rows take more than there is room for.

    Attributes
    ----------
    needed : RowsHeldOut
    again : bool              whether they can be read once more
    """

    def __init__(
        self, path: str, n_bytes: int, most: int, besides: RowsHeldOut, again: bool
    ) -> None:
        super().__init__(
            f"{shown_name(path)}: its rows take more than the {format_size(max(most, 0))} that "
            f"the memory budget leaves for them: {format_size(n_bytes)}",
            "evaluate on fewer rows, or name a file: that can be read again, with smaller groups",
        )
        self.needed = RowsHeldOut(n_bytes + besides.bytes, n_bytes + besides.reading_bytes)
        self.again, self._arguments = again, (path, n_bytes, most, besides, again)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments


def _rows(
    path: str, store: BlockStore, options: TrainOptions, room_bytes: int
) -> tuple[Iterator[Rows], RowsHeldOut]:
    """Return the rows, and what has to be there for them besides."""
    manifest = store.manifest
    if manifest.of_tables:
        from blocklinear.tables.arrow import ARROW_BYTES, TableMemory  # late: text does without
        from blocklinear.tables.split import labelled_rows

        room_bytes = min(room_bytes, options.memory_bytes - PROCESS_BYTES - 2 * ARROW_BYTES)
        memory = TableMemory(options.memory_bytes, training_bytes=max(room_bytes, 0))
        memory.bytes_for_rows()
        memory_bytes = options.memory_bytes - room_bytes
        text_options = TextOptions(threads=options.threads, memory_bytes=memory_bytes)
        rows, left = labelled_rows(store, [path], text_options, memory)
        arrow_bytes = memory_bytes - left
        return rows, RowsHeldOut(arrow_bytes, arrow_bytes + ARROW_BYTES)
    text = replace(
        options.evaluate_text or TextOptions(),
        index_base=manifest.index_base,
        base_of="the store",
        hash_bits=manifest.hash_bits,
        threads=options.threads,
        memory_bytes=options.memory_bytes - room_bytes,
    )
    return iter(read_rows([path], text)), RowsHeldOut(0, 0)
