"""Batches of rows from memory to a store: a new one, or one more batch of one that is there."""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

from blocklinear.arguments import batches_of, check_options
from blocklinear.batches.labels import LabelCoder
from blocklinear.batches.reader import BatchReader
from blocklinear.classes import Classes, named_labels
from blocklinear.errors import InputError, MismatchError, UsageError
from blocklinear.events import Listener, SplitProgress, ignore
from blocklinear.ingest.add import (
    batch_name,
    check_weights,
    commit_batch,
    ingest_into,
    list_of_skipped,
    split_options,
)
from blocklinear.ingest.compact import usual_bytes
from blocklinear.ingest.ingest import Batch, Ingestion, SkippedLines
from blocklinear.ingest.split import check_new, ingestion_of, new_store, save
from blocklinear.ingest.writer import make_plan
from blocklinear.numerals import counted
from blocklinear.options import AddOptions, SplitOptions
from blocklinear.store.changes import AnyStore, changing, new_blocks, skipped_name
from blocklinear.store.features import read_names
from blocklinear.store.store import BlockStore

_WEIGHTS = "sample_weight"
_WEIGHTS_PROVENANCE = {
    "path": _WEIGHTS, "size": 0, "mtime_ns": None, "sha256": None, "xxh64": "",
}  # fmt: skip


class StoreWriter:
    """Writes batches of rows from memory to a new store; see `add_to` for one that is there.

    Used with `with`: at its end the store is there, whole; if it is left by an exception, nothing
    is. The same rows make the same blocks, byte for byte, whether they come as text or as batches,
    and whatever the sizes of batches.

    The budget, ``options.text.memory_bytes``, is for all that the writer takes, the program
    included, with batches of up to a quarter of what 80 MiB for the program leave of it. What
    larger batches take, and what makes them, comes on top.

    Parameters
    ----------
    path : path
        Folder to make.
    options : SplitOptions
        Options about files have no effect. Weights of rows are given with each batch.
    listener : callable
        Called with `SplitProgress` and `Warned`.

    Attributes
    ----------
    store : BlockStore        after the end
    reserved_bytes : int      of the budget, for whoever makes the batches; set before the first

    Raises
    ------
    WrongTypeError
        If `options` are others.
    MismatchError
        If `path` exists and `options.force` is not set, or it is something else than a store.
    BusyError
        If another process is writing to it.
    StorageError

    Examples
    --------
    >>> with StoreWriter("store") as writer:  # doctest: +SKIP
    ...     for X, y in batches:
    ...         writer.append(X, y)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: SplitOptions | None = None,
        listener: Listener = ignore,
    ) -> None:
        options = SplitOptions() if options is None else options
        check_options(options, SplitOptions)
        self._begin(_NewStore(path, _of_batches(options), listener), listener)

    @classmethod
    def add_to(
        cls,
        store: AnyStore,
        options: AddOptions | None = None,
        listener: Listener = ignore,
    ) -> Self:
        """Return what writes one more batch of a store: all that is appended, or nothing.

        Hashing, normalisation, precision, compression and seed are those of the store; there may
        be new features and new labels. No other can write to the store meanwhile.

        Parameters
        ----------
        store : BlockStore or path
        options : AddOptions
            Name of the batch, memory, and the like. Options about files have no effect.
        listener : callable
            Called with `SplitProgress` and `Warned`.

        Raises
        ------
        WrongTypeError
            If `options` are others.
        MismatchError
            If the options are not those of the store.
        UsageError
            If there is a batch of that name.
        BusyError
            If another process writes to the store or trains on it.
        DamagedError
            If it is no store, or is damaged.
        """
        options = AddOptions() if options is None else options
        check_options(options, AddOptions)
        writer = cls.__new__(cls)
        writer._begin(_OldStore(store, options, listener), listener)
        return writer

    def _begin(self, place: "_NewStore | _OldStore", listener: Listener) -> None:
        self._place, self._listener = place, listener
        self._stack = contextlib.ExitStack()
        self._reader: BatchReader | None = None
        self._weighted: bool | None = None
        self._sources: list[dict[str, Any]] | None = None
        self._recipe = b""
        self._state = "new"
        self.reserved_bytes = 0
        self.store: BlockStore

    def __enter__(self) -> Self:
        if self._state != "new":
            raise UsageError("a StoreWriter is used once", "make another one")
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._place.opened())
            self._stack = stack.pop_all()
        self._state = "open"
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        failed, self._state = self._state == "failed", "closed"
        if kind is not None:
            self._stack.__exit__(kind, *error)
            return
        with self._stack:
            if failed:
                raise InputError(
                    "a batch was refused, so nothing is written", "leave out all of that batch"
                )
            self._finish()
        self.store = self._place.store()

    def append(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        """Append the rows of a batch, in their order.

        Column j of `X` is the feature ``j + 1`` of LIBSVM text, and of the model. All that text is
        refused for is refused: values that are not finite or from 1e154 on, columns of a sparse
        row that are repeated or not increasing unless the options say what to do; and integers
        that have no float64 of their own. Zeros are not stored. Once a batch was refused, the
        writer takes no more.

        Parameters
        ----------
        X : scipy sparse matrix or array, array_like, data frame, pyarrow Table or RecordBatch
            Shape (n_rows, n_columns), of numbers. Names of columns are kept if the first batch has
            any and features are not hashed, and all batches are to have the same. Sparse matrices
            without names may differ in width.
        y : array_like, shape (n_rows,)
            Labels, or values to regress on: numbers, integers of any size, or text.
        sample_weight : array_like of float, shape (n_rows,), optional
            Multiplies C of each row. Given for all batches or for none.

        Raises
        ------
        InputError
            If a row is refused: the message tells the batch and the row, both as they were given,
            rows counted from 0, and the column.
        MemoryBudgetError
            If there are more features than training could hold the weights of.
        StorageError
        """
        self.append_all([(X, y, sample_weight)])

    def append_all(self, batches: Iterable[tuple[Any, Any, Any]]) -> None:
        """Append batches; the next ones are converted while the ones before are written.

        Parameters
        ----------
        batches : iterable of (X, y, sample_weight)
            Each as for `append`.

        Raises
        ------
        WrongTypeError
            If an item is something else.
        """
        if self._state != "open":
            which = "takes no more: a batch was refused" if self._state == "failed" else "is closed"
            raise UsageError(f"this StoreWriter {which}", "append within `with`")
        self._state = "failed"  # unless all goes well
        batches = batches_of(batches)
        first = next(batches, None)
        if first is not None:
            if self._reader is None:
                self._open(weighted=first[2] is not None)
            assert self._reader is not None
            for rows in self._reader.take_all(map(self._of_one_kind, chain([first], batches))):
                self._ingestion.append(rows)
                self._listener(SplitProgress(0, None, self._ingestion.n_rows, self._ingestion.nnz))
        self._state = "open"

    def _of_one_kind(self, batch: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        """Refuse a batch with weights where others have none, and one without where others have."""
        weighted = batch[2] is not None
        if weighted != self._weighted:
            assert self._reader is not None
            has, had = ("has", "had none") if weighted else ("has no", "had")
            raise InputError(
                f"batch {self._reader.n_batches + 1} {has} sample_weight; those before {had}",
                "give weights for all batches, or for none",
            )
        return batch

    def describe(self, sources: list[dict[str, Any]], recipe: bytes = b"") -> None:
        """Tell, before the end, what the rows were made of: for whoever reads files, and appends.

        Parameters
        ----------
        sources : list of dict
            What the manifest says of each.
        recipe : bytes
            What a new store keeps as `BlockStore.recipe`.
        """
        self._sources, self._recipe = sources, recipe

    def skipped_rows(self) -> SkippedLines:
        """Return the list of rows that whoever reads files leaves out, in the store."""
        return SkippedLines(self._place.list_of_skipped(), "row")

    def _open(self, weighted: bool) -> None:
        """Make ready for rows: now it is known whether they have weights."""
        self._weighted = weighted
        options = self._place.options(weighted)
        self._ingestion = self._stack.enter_context(self._place.ingestion(options))
        text = replace(
            options.text,
            max_features=options.text.feature_limit,
            memory_bytes=options.text.memory_bytes - self.reserved_bytes,
        )
        self._coder = LabelCoder(*self._place.labels())
        ingestion = self._ingestion
        self._reader = BatchReader(
            text, options.dtype, self._coder, ingestion.look_up, ingestion.pool
        )
        self._reader.names = self._place.names()
        self._stack.callback(self._reader.close)

    def _finish(self) -> None:
        if self._reader is None or not self._ingestion.n_rows:
            raise InputError("no rows were appended", "append a batch with rows")
        reader = self._reader
        expected, found = self._place.expected_rows, self._ingestion.n_rows
        found += sum(source["skipped"] for source in self._sources or ())
        if expected is not None and found != expected:
            raise InputError(
                f"{counted(found, 'row')}, not the {expected} expected", "append all of them"
            )
        weights = _WEIGHTS_PROVENANCE if self._weighted else None
        classes = self._coder.classes
        sources = [reader.provenance] if self._sources is None else self._sources
        named = named_labels(json.loads(self._recipe or b"null"), classes)
        batch = self._ingestion.finish(reader.index_base, sources, weights, named)
        self._place.commit(batch, classes, reader.names or (), self._recipe)


class _NewStore:
    """Where batches go that make a store."""

    def __init__(
        self, path: str | os.PathLike[str], options: SplitOptions, listener: Listener
    ) -> None:
        self._path, self._options, self._listener = path, options, listener
        self.expected_rows = options.text.expect_rows

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Keep others out; leave all as it was if anything goes wrong."""
        options = self._options
        with new_store(self._path, lambda target: check_new(target, options)) as staging:
            self._staging = staging
            yield

    def list_of_skipped(self) -> Path:
        """Return the file that rows are listed in which are left out."""
        return self._staging / skipped_name(self._options.batch)

    def options(self, weighted: bool) -> SplitOptions:
        """Return how rows become blocks; refuse weights, or that there are none."""
        self._options = replace(self._options, weights=_WEIGHTS if weighted else None)
        return self._options

    def ingestion(self, options: SplitOptions) -> Ingestion:
        """Return what takes in the rows."""
        return ingestion_of(self._staging, options, make_plan(options), self._listener)

    def labels(self) -> tuple[Classes, Sequence[float]]:
        """Return the classes and the labels there are by now."""
        return {}, ()

    def names(self) -> None:
        """Return the names of features there are by now."""
        return None

    def commit(self, batch: Batch, classes: Classes, names: Sequence[str], recipe: bytes) -> None:
        """Make what was written part of a store."""
        if batch.labels is None and classes:
            raise InputError(
                "there are too many distinct labels to be classes, and some are integers beyond "
                "2**53", "for regression give y as numbers of float64",
            )  # fmt: skip
        if self._options.text.hash_bits:  # features are hashes then, which have no names
            names = ()
        save(self._staging, self._options, batch, classes, names, recipe)

    def store(self) -> BlockStore:
        """Return the store, after the end."""
        return BlockStore.open(Path(self._path).absolute())


class _OldStore:
    """Where batches go that are added to a store; its methods are those of `_NewStore`."""

    def __init__(self, store: AnyStore, options: AddOptions, listener: Listener) -> None:
        self._given, self._options, self._listener = store, options, listener
        self.expected_rows = options.text.expect_rows

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        with changing(self._given) as self._old:
            manifest = self._old.manifest
            options = _of_batches(split_options(manifest, self._options, sha256=False))
            self._how = replace(options, batch=batch_name(manifest, self._options.batch))
            listed = list_of_skipped(self._old, self._how.batch)
            with new_blocks(self._old) as self._first, listed:
                yield

    def list_of_skipped(self) -> Path:
        return self._old.folder / skipped_name(self._how.batch)

    def options(self, weighted: bool) -> SplitOptions:
        check_weights(self._old.manifest, weighted, _WEIGHTS)
        return replace(self._how, weights=_WEIGHTS if weighted else None)

    def ingestion(self, options: SplitOptions) -> Ingestion:
        plan = make_plan(options, None, usual_bytes(self._old.manifest.blocks))
        return ingest_into(self._old, options, plan, self._first, self._listener)

    def labels(self) -> tuple[Classes, Sequence[float]]:
        m = self._old.manifest
        return m.given, m.labels or ()

    def names(self) -> tuple[str, ...] | None:
        return read_names(self._old.folder, self._old.manifest)

    def commit(self, batch: Batch, classes: Classes, names: Sequence[str], recipe: bytes) -> None:
        if self._old.manifest.of_tables and not recipe:
            raise MismatchError(
                f"{self._old.folder}: is made of tables, by a recipe", "add tables of its columns"
            )
        self._new = commit_batch(self._old, batch, self._listener, classes)

    def store(self) -> BlockStore:
        return self._new


def _of_batches(options: SplitOptions) -> SplitOptions:
    """Refuse options that batches cannot have."""
    if options.weights is not None:
        raise UsageError(
            "weights names a file, which is for text", "give sample_weight with each batch"
        )
    if options.order == "file" and options.blocks is not None:
        raise UsageError(
            "how many rows there will be is known only at the end: "
            f"{counted(options.blocks, 'block')} cannot be filled in their order",
            "leave out blocks, or order='file'",
        )
    return options
