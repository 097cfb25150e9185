"""`split --target` and `add`: tables become the rows of a store."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from blocklinear.batches.labels import LabelCoder
from blocklinear.batches.writer import StoreWriter
from blocklinear.errors import BusyError, DamagedError, MismatchError
from blocklinear.events import Event, Listener, SplitProgress, Warned, ignore
from blocklinear.ingest.add import is_present, refuse_known
from blocklinear.options import AddOptions, SplitOptions, TextOptions
from blocklinear.recipe import Recipe
from blocklinear.store.store import BlockStore
from blocklinear.tables.arrow import TableMemory
from blocklinear.tables.encode import Encoder
from blocklinear.tables.infer import TableOptions, infer, listed
from blocklinear.tables.moments import Moments
from blocklinear.tables.stream import Skipping, Tables, columns_of, read_ahead, reader_of
from blocklinear.text import Rows


def split_tables(
    inputs: Sequence[str],
    store: str | os.PathLike[str],
    table: TableOptions,
    options: SplitOptions | None = None,
    listener: Listener = ignore,
) -> BlockStore:
    """Split tables into a store of randomly assigned, compressed blocks.

    UsageError is raised if the options name other columns than there are; or pyarrow is missing.
    InputError is raised if a file cannot be read, or a value cannot be a feature; BlocklinearError
    as by `split`.

    Parameters
    ----------
    inputs : sequence of str  files of Parquet, Arrow or CSV, folders of them, or patterns
    store : path              folder to make
    table : TableOptions      what is made of the columns
    listener : callable       receives `SplitProgress` and `Warned`
    """
    options = options or SplitOptions()
    most_skipped = _most_skipped(options.text)
    options = replace(options, text=_of_rows(options.text))
    tables = _tables(inputs, options.text)
    recipe = infer(*tables.schema_to_infer(table.categories), table, listener)
    progress = _Progress(tables, listener)
    with StoreWriter(store, options, progress) as writer:
        tables.open(recipe, "those of the first table", _own(recipe), listener)
        if table.standardize:
            recipe = with_moments(recipe, tables, most_skipped, listener)
        encoder = Encoder(recipe, growing=True)
        _append(writer, tables, encoder, options.text.memory_bytes, most_skipped, progress)
        writer.describe(tables.provenance(), encoder.recipe.to_bytes())
    return writer.store


def add_tables(
    store: str | os.PathLike[str],
    inputs: Sequence[str],
    options: AddOptions | None = None,
    listener: Listener = ignore,
) -> tuple[BlockStore, dict[str, int]]:
    """Add tables to a store of tables, by its recipe: all of their rows, or none.

    MismatchError is raised if the store is not made of tables, or has one of the files already;
    InputError if the columns do not fit the recipe: with a list of the differences;
    BlocklinearError as by `split_tables` and `add`.

    Parameters
    ----------
    inputs : sequence of str  as for `split_tables`
    listener : callable       receives `SplitProgress` and `Warned`; `BatchPresent` where
                              `options.if_absent` is set and there is a batch of these files, which
                              then is left as it is

    Returns
    -------
    store : BlockStore
        The store with the batch.
    unseen : dict of str to int
        Values that the dictionary does not have, which are no features, by column.
    """
    options = options or AddOptions()
    most_skipped = _most_skipped(options.text)
    options = replace(options, text=replace(_of_rows(options.text), index_base="auto"))
    old = BlockStore.open(store)
    recipe = recipe_of(old)
    tables = _tables(inputs, options.text)
    if is_present(old, tables.paths, options, listener):
        return old, {}
    progress = _Progress(tables, listener)
    with StoreWriter.add_to(old, options, progress) as writer:
        if BlockStore.open(store).manifest.generation != old.manifest.generation:
            raise BusyError(f"{old.folder}: another process has changed it", "add the tables again")
        tables.open(recipe, f"the recipe of {old.folder}", _own(recipe), listener)
        for source in tables.sources:
            refuse_known(old.manifest, source.path, options.allow_duplicate)
        encoder = Encoder(recipe, growing=False)
        _append(writer, tables, encoder, options.text.memory_bytes, most_skipped, progress)
        writer.describe(tables.provenance(), recipe.to_bytes())
    warn_of_unseen(encoder.unseen, listener)
    return writer.store, encoder.unseen


def recipe_of(store: BlockStore) -> Recipe:
    """Return the recipe of a store.

    MismatchError is raised if it is not made of tables; DamagedError if its recipe is damaged.
    """
    content = store.recipe
    if content is None:
        raise MismatchError(
            f"{store.folder}: is not made of tables, and has no recipe for one",
            "split tables with --target",
        )
    try:
        return Recipe.of_json(content)
    except ValueError as error:
        raise DamagedError(f"{store.folder}: {error}", "split the tables again") from error


def labelled_rows(
    store: BlockStore, inputs: Sequence[str], options: TextOptions, memory: TableMemory
) -> tuple[Iterator[Rows], int]:
    """Return the rows of other tables with a target, as those of a store of tables, unnumbered.

    MemoryBudgetError is raised if `memory` does not do for the columns; MismatchError if the store
    is not made of tables. InputError is raised if the columns do not fit the recipe, with a list of
    the differences; or a value cannot be a feature. Raises StorageError, too.

    Parameters
    ----------
    store : BlockStore        its recipe applies, but for the weights of rows
    inputs : sequence of str  as for `split_tables`
    options : TextOptions     threads

    Returns
    -------
    rows : iterator of Rows
    memory_bytes : int        what of the budget is left for the program and rows
    """
    recipe, manifest = recipe_of(store), store.manifest
    coder = LabelCoder(manifest.given, manifest.labels or ())
    tables = Tables(inputs, options.threads, memory)
    tables.open(recipe, f"the recipe of {store.folder}", [recipe.target.name])
    left = tables.bytes_for_rows(columns_of(recipe, labelled=True))

    def rows() -> Iterator[Rows]:
        reader = reader_of(coder, options, left, manifest.index_base, "the store")
        try:
            encoder = Encoder(recipe, growing=False)
            for found in tables.encoded(encoder, labelled=True, skipping=Skipping()):
                yield from reader.take(found.table, found.labels, None)
        finally:
            reader.close()

    return rows(), left


def with_moments(recipe: Recipe, tables: Tables, most_skipped: int, listener: Listener) -> Recipe:
    """Return a recipe with the mean and the deviation of each column of numbers, from one pass.

    Missing values and rows without a target do not count; a column of one value is divided by 1.
    `Warned` names columns without values, as numbers of rows that are added later stay as they are.
    """
    names = [recipe.names[j] for j in recipe.numbers]
    if not names:
        return recipe
    moments = {name: Moments() for name in names}
    for _, part in read_ahead(tables.parts([*names, recipe.target.name], Skipping(most_skipped))):
        for name in names:
            moments[name].add(part, name)
    empty = [name for name in names if not moments[name].count]
    if empty:
        listener(
            Warned(
                f"no values in {listed(empty)}, whose mean and deviation are not known: numbers in "
                "rows that are added later are not standardised; split a table in which there are "
                "some, too, or leave it out with --drop"
            )
        )
    columns = list(recipe.columns)
    for j in recipe.numbers:
        mean, scale = moments[columns[j].name].finish()
        columns[j] = replace(columns[j], mean=mean, scale=scale)
    return replace(recipe, columns=tuple(columns))


def warn_of_unseen(unseen: dict[str, int], listener: Listener) -> None:
    """Say how many values were no features."""
    if unseen:
        counts = ", ".join(f"{name} {n}" for name, n in unseen.items())
        listener(
            Warned(f"values that the dictionary does not have, and that are left out: {counts}")
        )


def _of_rows(text: TextOptions) -> TextOptions:
    """Return how rows are taken in: the features of a row may be in any order, and repeated."""
    return replace(text, unsorted="sort", duplicates="sum", hash_bits=0, on_error="fail")


def _most_skipped(text: TextOptions) -> int:
    """Return how many rows without a target may be left out."""
    return text.max_errors if text.on_error == "skip" else 0


def _tables(inputs: Sequence[str], text: TextOptions) -> Tables:
    """Return the files; MemoryBudgetError is raised if there is too little for any."""
    memory = TableMemory(text.memory_bytes)
    memory.bytes_for_rows()
    return Tables(inputs, text.threads, memory)


def _own(recipe: Recipe) -> list[str]:
    return [recipe.target.name, *([recipe.weight] if recipe.weight is not None else [])]


class _Progress:
    """Tells how many bytes of the files were read."""

    def __init__(self, tables: Tables, listener: Listener) -> None:
        self._tables, self._listener, self.bytes_read = tables, listener, 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, SplitProgress):
            total = self._tables.bytes_total
            event = replace(event, bytes_read=self.bytes_read, bytes_total=total)
        self._listener(event)


def _append(
    writer: StoreWriter,
    tables: Tables,
    encoder: Encoder,
    memory_bytes: int,
    most_skipped: int,
    progress: _Progress,
) -> None:
    names = columns_of(encoder.recipe, labelled=True, weighted=True)
    writer.reserved_bytes = memory_bytes - tables.bytes_for_rows(names)
    skipped = writer.skipped_rows()
    skipping = Skipping(most_skipped, skipped.add)

    def batches() -> Iterator[tuple[Any, Any, Any]]:
        for rows in tables.encoded(encoder, True, weighted=True, digested=True, skipping=skipping):
            progress.bytes_read = rows.bytes_read
            yield rows.table, rows.labels, rows.weights

    with skipped:
        writer.append_all(batches())
    skipped.tell(sum(tables.skipped), progress)
