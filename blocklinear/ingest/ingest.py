"""Rows to blocks that no manifest names yet: what makes a store and what adds to it share."""

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Self

from blocklinear.classes import Classes, code_text
from blocklinear.errors import InputError, UsageError, storage_errors
from blocklinear.events import Listener, OneLabel, SplitProgress, Warned
from blocklinear.ingest.numbering import Numbering
from blocklinear.ingest.writer import BatchWriter, Plan, decoded_bytes
from blocklinear.inputs.raw import name_of, size_of
from blocklinear.inputs.urls import shown_names
from blocklinear.memory import WEIGHT_VECTORS, exact_size, format_size
from blocklinear.numerals import counted
from blocklinear.options import SplitOptions
from blocklinear.store.changes import skipped_name
from blocklinear.store.codec import compression_level
from blocklinear.store.features import write_features
from blocklinear.store.files import sync_file
from blocklinear.store.manifest import today
from blocklinear.store.records import BlockRecord, FeatureFile
from blocklinear.text import RowReader, Rows, WeightReader

Paths = Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Written:
    """The blocks of a batch, and what was counted on the way."""

    blocks: list[BlockRecord]
    labels: list[float] | None  # those known before, then the new ones; None if too many
    n_rows: int  # of this batch, as is `nnz`
    nnz: int
    max_index: int  # largest index of the input, -1 if there is none
    next_row: int  # not used yet, as is `next_block`
    next_block: int


@dataclass(frozen=True)
class Batch(Written):
    """What was read and written."""

    name: str
    dimension: int  # the largest index of the batch less `index_base`, plus 1
    index_base: int
    sources: list[dict[str, Any]]
    weights: dict[str, Any] | None  # the file of weights, like a source
    features: list[FeatureFile]  # those known before, and one of this batch if it has new features

    def entry(self) -> dict[str, Any]:
        """Return what the manifest says of it, committed now."""
        entry = {"name": self.name, "date": today(), "rows": self.n_rows, "sources": self.sources}
        return entry if self.weights is None else entry | {"weights": [self.weights]}


def batch_of(
    written: Written,
    features: list[FeatureFile],
    index_base: int,
    sources: list[dict[str, Any]],
    weights: dict[str, Any] | None,
    options: SplitOptions,
    listener: Listener,
    classes: Classes | None = None,
) -> Batch:
    """Return what was read and written, and warn of what is odd about it.

    Parameters
    ----------
    features : list of FeatureFile      of all batches
    index_base, sources, weights, classes         as for `Ingestion.finish`
    """
    dimension, labels = max(written.max_index - index_base + 1, 0), written.labels
    if labels is not None and len(labels) == 1:
        one = code_text(labels[0], classes or {})
        listener(OneLabel(f"all rows have the one label {one}"))
    n_features = sum(file.features for file in features) if options.renumber else dimension
    _warn_of_features(dimension, n_features, options, listener)
    n_zeros = sum(block.weights.get("zeros", 0) for block in written.blocks)
    if n_zeros:
        listener(
            Warned(
                f"{counted(n_zeros, 'row has', 'rows have')} weight 0: stored, but not trained on"
            )
        )
    return Batch(
        **vars(written),
        name=options.batch,
        dimension=dimension,
        index_base=index_base,
        sources=sources,
        weights=weights,
        features=features,
    )


class Ingestion:
    """Takes in the rows of one batch, and writes them to new, durable blocks.

    Used with `with`. Whatever goes wrong, the caller clears away what was written.

    MemoryBudgetError is raised if there are too many features. Raises StorageError, too.

    Parameters
    ----------
    folder : Path             of blocks
    first_row, first_block : int        numbers not used yet
    labels : sequence of float, or None           labels known from earlier batches; None when there
                              are too many
    features : sequence of FeatureFile  those of earlier batches
    numbering : Numbering or None       knows their features; None if features have the numbers of
                              the input

    Attributes
    ----------
    folder, options, listener :         as given
    n_rows, nnz : int         taken in so far
    pool : ThreadPoolExecutor           encodes rows, and is to parse them: threads of two pools,
                              more than processors, wait for each other's hold on Python's lock
                              (73.6 M nonzeros of text: 3.03 s, with two pools 3.27)
    """

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        options: SplitOptions,
        listener: Listener,
        first_row: int = 0,
        first_block: int = 0,
        labels: Sequence[float] | None = (),
        features: Sequence[FeatureFile] = (),
        numbering: Numbering | None = None,
    ) -> None:
        self.folder, self.options, self.listener = folder, options, listener
        self._features, self._numbering = features, numbering
        self.n_rows = self.nnz = 0
        self.pool = ThreadPoolExecutor(options.text.threads, "ingest")
        self._writer = BatchWriter(
            folder, plan, options, self.pool, first_row, first_block, labels, numbering
        )

    @property
    def look_up(self) -> Callable[[Rows], Rows] | None:
        """What replaces indices of rows by numbers of the store, in any thread; None if nothing."""
        return None if self._numbering is None else self._numbering.look_up

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.__exit__(*error)
        self.pool.shutdown()

    def append(self, rows: Rows) -> None:
        """Take in the next rows; they are used up."""
        self.n_rows, self.nnz = self.n_rows + rows.n_rows, self.nnz + rows.nnz
        self._writer.append(rows)

    def finish(
        self,
        index_base: int,
        sources: list[dict[str, Any]],
        weights: dict[str, Any] | None,
        classes: Classes | None = None,
    ) -> Batch:
        """Finish every block; return what was written.

        Parameters
        ----------
        index_base : int          number of the first feature
        sources : list of dict    where the rows come from, as the manifest tells it
        weights : dict or None    where their weights come from
        classes : mapping of float to str or int      labels as they were given, where these are
                                  others than those of blocks
        """
        writer, numbering = self._writer, self._numbering
        writer.write_held()
        written = self.pool.submit(
            new_features, numbering, self.folder.parent, self._features, self.options
        )
        blocks, labels = writer.finish()
        found = Written(
            blocks, labels, writer.n_rows, writer.nnz, writer.max_index, writer.next_row,
            writer.next_block,
        )  # fmt: skip
        return batch_of(
            found, written.result(), index_base, sources, weights, self.options, self.listener,
            classes,
        )  # fmt: skip


def read_batch(inputs: Paths, ingestion: Ingestion) -> Batch:
    """Read text once and write its rows to blocks.

    Refused lines are listed in a file next to the folder of blocks.

    InputError is raised if the text is malformed or holds no rows; MemoryBudgetError if there are
    too many features. Raises StorageError, too.
    """
    options, listener = ingestion.options, ingestion.listener
    skipped = SkippedLines(ingestion.folder.with_name(skipped_name(options.batch)))
    text = replace(options.text, max_features=options.text.feature_limit)
    with skipped, _weights_of(inputs, options) as weights, ingestion:
        reader = RowReader(
            inputs, text, skipped.add, True, weights, options.dtype, ingestion.look_up,
            pool=ingestion.pool,
        )  # fmt: skip
        for rows in reader:
            ingestion.append(rows)
            listener(
                SplitProgress(
                    reader.bytes_read, reader.bytes_total, ingestion.n_rows, ingestion.nnz
                )
            )
        if ingestion.n_rows == 0:
            raise no_rows(inputs)
        for note in reader.notes:
            listener(Warned(note))
        skipped.tell(reader.skipped, listener)
        return ingestion.finish(
            reader.index_base, reader.provenance, None if weights is None else weights.provenance
        )


def no_rows(inputs: Paths) -> InputError:
    """Return the error for inputs that hold no row."""
    why = "no rows: nothing but blank lines or comments"
    return InputError(f"{shown_names(inputs)}: {why}", "check the input")


def new_features(
    numbering: Numbering | None, store: Path, known: Sequence[FeatureFile], options: SplitOptions
) -> list[FeatureFile]:
    """Write the file of new features, if there are any; return the records of all."""
    new = None if numbering is None else numbering.new_indices()
    if new is None or not len(new):
        return list(known)
    level = compression_level(options.compression)
    return [*known, write_features(store, len(known), new, level)]


def _weights_of(
    inputs: Paths, options: SplitOptions
) -> contextlib.AbstractContextManager[WeightReader | None]:
    """Open the file of weights, if there is one."""
    if options.weights is None:
        return contextlib.nullcontext()
    path = name_of(options.weights)
    if path == "-" and "-" in inputs:
        raise UsageError("rows and weights cannot both come from standard input", "name a file")
    return WeightReader(path, options.text)


def total_bytes(inputs: Paths, options: SplitOptions) -> float | None:
    """Return the decoded size of all inputs where a plan needs it, which takes a pass over them.

    That is where a number of blocks is to be filled in the order of the input: elsewhere None.

    UsageError is raised if it is needed, and an input is a stream, which cannot be read twice.
    """
    if options.order != "file" or options.blocks is None:
        return None
    if any(size_of(path) is None for path in inputs):
        raise UsageError(
            "the size of a stream is known only at its end: "
            f"{counted(options.blocks, 'block')} cannot be filled in the order of the input",
            "give a file, or leave out --blocks or --order file",
        )
    reader = RowReader(inputs, options.text, fleeting=True, dtype=options.dtype)
    return float(sum(decoded_bytes(rows.n_rows, rows.nnz) for rows in reader))


class SkippedLines:
    """The refused lines, or rows of tables, listed in a file as they come; none if none come."""

    def __init__(self, path: Path, kind: str = "line") -> None:
        self._path, self.name, self._kind = path, path.name, kind
        self._stream: IO[bytes] | None = None
        self.first = ""

    def add(self, error: InputError) -> None:
        """List one: path, line or row, column and problem."""
        with storage_errors(self._path, "write"):
            if self._stream is None:
                self._stream = open(self._path, "xb")  # noqa: SIM115
                self.first = error.what
            self._stream.write(os.fsencode(error.what.replace("\n", "\\n")) + b"\n")

    def tell(self, n: int, listener: Listener) -> None:
        """Warn that `n` were skipped, if any were."""
        if n:
            skipped = counted(n, f"{self._kind} was", f"{self._kind}s were")
            listener(
                Warned(
                    f"{skipped} skipped; the first: {self.first}; "
                    f"all are listed in {self.name} in the store"
                )
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            with storage_errors(self._path, "write"):
                self._stream.close()
            sync_file(self._path)


def _warn_of_features(
    dimension: int, n_features: int, options: SplitOptions, listener: Listener
) -> None:
    """Say so if no training within this budget could hold its weights, or those of the model."""
    budget = options.text.memory_bytes
    needed = 8 * WEIGHT_VECTORS * n_features
    what = f"the {WEIGHT_VECTORS} weight vectors of training"
    if options.renumber and 8 * (n_features + dimension) > needed:
        needed, what = 8 * (n_features + dimension), "the weights of a model and what it is made of"
    if needed > budget:
        listener(
            Warned(
                f"{counted(dimension, 'feature')}: {what} take {needed} bytes "
                f"({format_size(needed)}), more than the budget of {exact_size(budget)}: split "
                "with --hash-bits, or train with a larger --memory"
            )
        )
