"""Files of tables as a stream of rows of features, read one part ahead."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, TypeVar

from numpy.typing import NDArray

from blocklinear.batches.labels import LabelCoder
from blocklinear.batches.reader import BatchReader
from blocklinear.errors import InputError, StorageError, quoted_name, storage_errors
from blocklinear.events import Listener, Warned, ignore
from blocklinear.inputs.raw import READ_BYTES, RawFile, digest_of
from blocklinear.memory import spare_bytes
from blocklinear.options import TextOptions
from blocklinear.recipe import Recipe
from blocklinear.tables.arrow import (
    CELL_BYTES,
    FRACTION_ZERO,
    LEAST_ROWS,
    PARTS_BYTES,
    TableMemory,
    arrow,
)
from blocklinear.tables.encode import EncodedTable, Encoder
from blocklinear.tables.infer import Differences
from blocklinear.tables.sources import TableFile, WrongValue, find_files, open_source
from blocklinear.tables.values import FileRows, Floats, Integers, missing_in, refuse_missing

_MOST_ROWS = 1 << 16
_MUCH_BYTES = 128 << 20
"""If so much is left for rows, parts are twice as large: a split takes 7 % fewer processor seconds,
and 25 MB more."""
_T = TypeVar("_T")


def read_ahead(items: Iterator[_T]) -> Iterator[_T]:
    """Yield what another iterator does, one item ahead, which a thread makes meanwhile."""
    with ThreadPoolExecutor(1, "read tables") as pool:
        ahead = pool.submit(next, items, None)
        while (item := ahead.result()) is not None:
            ahead = pool.submit(next, items, None)
            yield item


@dataclass(frozen=True)
class Encoded:
    """Rows of a part."""

    part: FileRows
    table: EncodedTable
    labels: NDArray[Any] | None  # shape (n_rows,)
    unlabelled: Integers | None  # rows without a label, if labels are wanted
    weights: Floats | None  # float64[n_rows]
    bytes_read: int  # of all files so far


@dataclass(frozen=True)
class Skipping:
    """How rows without a target are left out."""

    most: float = math.inf  # if there are more, the first is refused
    tell: Callable[[InputError], None] | None = None  # called with what is wrong with each


class Tables:
    """Files that fit a recipe.

    Parameters
    ----------
    inputs : sequence of str  files, folders, patterns
    threads : int             how many pyarrow may use
    memory : TableMemory      MemoryBudgetError is raised if it does not do for the columns

    Attributes
    ----------
    paths : list of str       of the files
    sources : list of TableFile  once they are open
    bytes_total : int
    skipped : list of int     rows that were left out, by file
    """

    def __init__(self, inputs: Sequence[str], threads: int, memory: TableMemory) -> None:
        arrow(threads)
        self._memory, self._open_bytes = memory, 0
        self._files = find_files(inputs)
        self.paths = [file.path for file in self._files]
        self.sources: list[TableFile] = []
        self._before: list[os.stat_result] = []
        self._rows: list[int] = []
        self.skipped: list[int] = []
        self._target = ""
        self._kinds: dict[str, str] = {}
        self._digests: dict[int, str] = {}
        self.bytes_total = 0

    def first_schema(self) -> tuple[str, Any]:
        """Return the path and the schema of the first file."""
        return self.paths[0], open_source(self._files[0], {}, self._check_memory).schema

    def schema_to_infer(self, categories: Sequence[str] = ()) -> tuple[str, Any]:
        """Return the path and the schema of the first file; where types are guessed, text of some.

        Columns that have no values in it, and so no type, are of the type that the first file gives
        in which they have some.

        Parameters
        ----------
        categories : sequence of str        columns that are to be categories
        """
        kinds = dict.fromkeys(categories, "category")
        found = (open_source(file, kinds, self._check_memory).schema for file in self._files)
        schema, is_null = next(found), arrow().types.is_null
        while untyped := [field.name for field in schema if is_null(field.type)]:
            other = next(found, None)
            if other is None:
                break
            for name in untyped:
                place, typed = (s.get_field_index(name) for s in (schema, other))
                if min(place, typed) >= 0:  # of two of the name there is none
                    schema = schema.set(place, other.field(typed))
        return self.paths[0], schema

    def _check_memory(self, path: str, open_bytes: int, reading_bytes: int, n_columns: int) -> None:
        """Refuse a file that cannot be opened, with what would do to read it, too."""
        memory, before = self._memory, self._open_bytes
        if memory.lacking_bytes(before + open_bytes, 0) > 0:
            lacking = memory.lacking_bytes(before + reading_bytes, n_columns)
            memory.refuse(lacking, n_columns, path)

    def bytes_for_rows(self, names: Sequence[str]) -> int:
        """Return what of the budget is left for the program and rows of these columns.

        MemoryBudgetError is raised if that is too little.
        """
        return min(
            self._memory.bytes_for_rows(
                self._open_bytes + source.reading_bytes(names), len(names), source.path
            )
            for source in self.sources
        )

    def open(
        self, recipe: Recipe, whose: str, asked: Sequence[str], listener: Listener = ignore
    ) -> None:
        """Open all files; `Warned` names categories of CSV that are integers with a fraction of 0.

        InputError is raised with a list of how columns differ from those of the recipe;
        StorageError if one cannot be read.

        Parameters
        ----------
        whose : str               what has the recipe, for people
        asked : sequence of str   columns of the target and the weight that are needed
        """
        self._kinds = {column.name: column.kind for column in recipe.columns}
        kinds, self._target = dict(self._kinds), recipe.target.name
        kinds[recipe.target.name] = recipe.target.kind
        if recipe.weight is not None:
            kinds[recipe.weight] = "number"
        differences = Differences()
        for file in self._files:
            with storage_errors(file.path, "read"):
                self._before.append(os.stat(file.path))
            source = open_source(file, kinds, self._check_memory)
            self._open_bytes += source.open_bytes
            differences.look_at(file.path, source.schema, recipe, asked)
            self.sources.append(source)
            self.bytes_total += source.size
        differences.refuse(whose)
        self._warn_of_fractions(recipe, listener)

    def _warn_of_fractions(self, recipe: Recipe, listener: Listener) -> None:
        """Say that 7.0 is not 7, once for each column, unless the recipe has such categories."""
        for j, column in enumerate(recipe.columns):
            for source in self.sources if column.kind == "category" else ():
                noted = source.schema.field(column.name).metadata or {}
                value = noted.get(FRACTION_ZERO, b"").decode()
                if value and (j, value) not in recipe.dictionary:
                    listener(
                        Warned(
                            f"{source.path}: categories in {quoted_name(column.name)} end in .0, "
                            f"and {value} is not {value[:-2]}: pandas writes integers so if one "
                            "is missing, unless they are Int64"
                        )
                    )
                    break

    def parts(
        self, names: Sequence[str], skipping: Skipping | None = None
    ) -> Iterator[tuple[int, FileRows]]:
        """Yield parts of these columns, each with the position of its file.

        With `skipping`, which takes the column of the target, rows without one are left out.
        """
        spare = spare_bytes(self.bytes_for_rows(names))
        share = PARTS_BYTES // 2 if spare >= _MUCH_BYTES else PARTS_BYTES
        fitting = spare // share // (CELL_BYTES * len(names))
        n_rows = min(max(fitting, LEAST_ROWS), _MOST_ROWS)
        self._rows, self.skipped = [0] * len(self.sources), [0] * len(self.sources)
        for k, source in enumerate(self.sources):
            with storage_errors(source.path, "read"), self._what_to_do():
                for read in source.read(names, n_rows):
                    part = read if skipping is None else self._labelled(read, skipping)
                    self.skipped[k] += read.n_rows - part.n_rows
                    if part.n_rows:
                        self._rows[k] += part.n_rows
                        yield k, part

    def _labelled(self, part: FileRows, skipping: Skipping) -> FileRows:
        """Return the rows that have a target."""
        array = part.columns[self._target]
        missing = missing_in(array)
        if not len(missing):
            return part
        if sum(self.skipped) + len(missing) > skipping.most:
            fix = "`--on-error skip` leaves out up to --max-errors such rows; `predict` takes them"
            refuse_missing(part, self._target, array, "the target", fix)
        if skipping.tell is not None:
            what = f"column {self._target}: the target is missing"
            for row in missing.tolist():  # not `at`, which in CSV looks for the line
                skipping.tell(InputError(f"{part.place}, row {part.number(row)}, {what}"))
        return part.with_values(self._target)

    @contextlib.contextmanager
    def _what_to_do(self) -> Iterator[None]:
        """Name the options of `split` that would take a value which is not as those before."""
        try:
            yield
        except WrongValue as error:
            kind, fix = self._kinds.get(error.column), error.fix
            if kind is not None:
                fix += f", or split with --drop {error.column} to leave the column out"
            if kind in ("number", "boolean"):
                fix += f", or with --categories {error.column} to make each value a feature"
            raise InputError(error.what, fix) from error

    def encoded(
        self,
        encoder: Encoder,
        labelled: bool,
        keep: Sequence[str] = (),
        weighted: bool = False,
        digested: bool = False,
        skipping: Skipping | None = None,
    ) -> Iterator[Encoded]:
        """Return the rows, part by part; the next is encoded meanwhile, and one after it read.

        Parameters
        ----------
        labelled, weighted : bool           whether labels are wanted, and weights where the recipe
                                  has them
        keep : sequence of str    other columns to read
        digested : bool           whether digests of the files are taken, for `provenance`
        skipping : Skipping or None         where labels are wanted, how rows without one are left
                                  out; None if they are not
        """
        recipe = encoder.recipe
        names = columns_of(recipe, labelled, keep, weighted)
        before = [0, *accumulate(source.size for source in self.sources)]

        def rows() -> Iterator[Encoded]:
            for k, part in self._digested(read_ahead(self.parts(names, skipping)), digested):
                labels, unlabelled = None, None
                if labelled:
                    labels = encoder.labels(part)
                    unlabelled = missing_in(part.columns[recipe.target.name])
                weights = encoder.weights(part) if weighted else None
                done = before[k] + part.bytes_read
                yield Encoded(part, encoder.table(part), labels, unlabelled, weights, done)

        return read_ahead(rows())

    def _digested(
        self, parts: Iterator[tuple[int, FileRows]], digested: bool
    ) -> Iterator[tuple[int, FileRows]]:
        """Yield parts, and digest their files as far as they were read: the page cache has that."""
        opened, raw = -1, None
        buffer = memoryview(bytearray(READ_BYTES if digested else 0))
        try:
            for k, part in parts:
                if digested and k != opened:
                    self._finish_digest(opened, raw)
                    opened, raw = k, RawFile(self.sources[k].path)
                while raw is not None and raw.bytes_read < part.bytes_read:
                    if not raw.readinto(buffer):
                        break
                yield k, part
            self._finish_digest(opened, raw)
        finally:
            if raw is not None:
                raw.close()

    def _finish_digest(self, k: int, raw: RawFile | None) -> None:
        if raw is not None:
            self._digests[k] = raw.read_rest()["xxh64"]

    def provenance(self) -> list[dict[str, Any]]:
        """Return what a manifest says of the files, all of which were read.

        StorageError is raised if one has changed meanwhile; InputError if there are no rows.
        """
        if not sum(self._rows):
            raise self.no_rows()
        sources = []
        for k, (source, before) in enumerate(zip(self.sources, self._before, strict=True)):
            with storage_errors(source.path, "read"):
                digest = self._digests.get(k) or digest_of(source.path, "xxh64")
                now = os.stat(source.path)
            if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                raise StorageError(f"{source.path}: changed while it was read", "split it again")
            sources.append(
                {
                    "path": source.path, "size": now.st_size, "mtime_ns": now.st_mtime_ns,
                    "sha256": None, "xxh64": digest, "rows": self._rows[k],
                    "lines": self._rows[k] + self.skipped[k], "blank": 0, "zeros": 0,
                    "skipped": self.skipped[k], "final_newline": True,
                }
            )  # fmt: skip
        return sources

    def no_rows(self) -> InputError:
        """Return the error for files that were read and hold no row, or none with a target."""
        which = f" with a target, {sum(self.skipped)} without" if any(self.skipped) else ""
        return InputError(f"{', '.join(self.paths[:10])}: no rows{which}", "check the input")


def columns_of(
    recipe: Recipe, labelled: bool, keep: Sequence[str] = (), weighted: bool = False
) -> list[str]:
    """Return the columns that are read: of features, labels, weights, and others to keep."""
    names = dict.fromkeys(recipe.names)
    if labelled:
        names[recipe.target.name] = None
    if weighted and recipe.weight is not None:
        names[recipe.weight] = None
    return list(names | dict.fromkeys(keep))


def reader_of(
    coder: LabelCoder,
    options: TextOptions,
    memory_bytes: int,
    index_base: int | Literal["auto"],
    whose: str,
) -> BatchReader:
    """Return what makes rows of the features of tables.

    Parameters
    ----------
    coder : LabelCoder        knows the labels
    options : TextOptions     threads
    memory_bytes : int        for the program and rows, as of `Tables.bytes_for_rows`
    index_base : int          number of the first feature
    whose : str               what has this number, for people
    """
    text = TextOptions(
        index_base=index_base, base_of=whose, threads=options.threads,
        memory_bytes=memory_bytes, unsorted="sort", duplicates="sum",
    )  # fmt: skip
    return BatchReader(text, "float64", coder)
