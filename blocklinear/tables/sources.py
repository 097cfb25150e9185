"""Files of tables, recognised by their first bytes: Parquet, Arrow IPC (Feather) and CSV."""

import codecs
import contextlib
import csv
import glob
import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import numpy as np

from blocklinear.errors import InputError, StorageError, UsageError, storage_errors
from blocklinear.inputs.urls import is_url, shown_name
from blocklinear.memory import format_size
from blocklinear.tables.arrow import CELL_BYTES, FRACTION_ZERO, MISSING_WORD, arrow, without_views
from blocklinear.tables.pages import UnknownPageError, page_bytes, read_dictionary
from blocklinear.tables.values import LONGEST_VALUE, FileRows

_CSV_BLOCK_BYTES = 1 << 20
"""The first so many bytes of CSV tell the types of its columns, and no row has more."""
_CSV_SMALL_BLOCK_BYTES = 1 << 18
"""CSV with short rows is read in blocks of so many bytes: pyarrow reads 32 of them ahead. With
blocks of a megabyte, a split of 300,000 rows of 110 bytes took 60 MB more."""
_SHORT_ROW_BYTES = 256
"""Blocks of fewer than a thousand rows take longer: of 70 rows of a thousand columns, twice."""
_PARQUET_BUFFER_BYTES = 1 << 16
_PAGE_BYTES = 1 << 20
"""Writers of Parquet end a page after so many bytes."""
_CHUNK_BYTES = 16 << 10
"""What pyarrow takes to read a chunk of Parquet, however small it is."""
_FOOTER_SHARE = 12
"""Metadata of Parquet take so many times what they do in the file: 8.6 times of 10 row groups, 11.4
of two."""
_CSV_AHEAD_BYTES = 32 << 20
_CSV_COLUMN_BYTES, _CSV_READING_BYTES = 9 << 10, 4 << 10
"""What pyarrow takes for CSV: for the text that is read ahead; for each column to open it; for each
column that is read, in the record batches that are made ahead (measured with 60,000 columns)."""
_OWN_THREAD_ENOUGH = 3
"""With so many threads, Parquet is read by the one that asks for it: reading takes 1.9 of the 7
processor seconds of a split. Threads of pyarrow's own take 5 % more of these, and 20 MB."""
_HIVE_MISSING = "__HIVE_DEFAULT_PARTITION__"
_DICTIONARY_BYTES = 1 << 16
"""Dictionaries of Parquet are read as such up to so many bytes, compressed."""
Check = Callable[[str, int, int, int], object]
"""Refuses a file, by its path, if what pyarrow takes to open it does not fit in memory; its other
arguments are what it takes to read all columns, and how many these are."""
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}

_NOT_TEXT = {
    b"\xfd7zX": ("compressed by xz", "decompress it, or compress it by gzip or zstd"),
    b"PK\x03\x04": ("a zip archive, as .xlsx is", "unpack it, or save it as Parquet or CSV"),
    b"Obj\x01": ("Avro", "write it as Parquet or CSV"),
}
"""First bytes of files that are no text, what they are, and what to do."""


class WrongValue(InputError):
    """A value of a CSV is not of the type of its column."""

    def __init__(self, what: str, fix: str, column: str) -> None:
        self.column = column
        super().__init__(what, fix)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.what, self.fix, self.column)


class _LongRow(InputError):
    """A row of a CSV does not fit in a block."""


class TableFile(ABC):
    """A file of rows.

    Attributes
    ----------
    path : str
    size : int
    schema : pyarrow Schema
    open_bytes : int          what pyarrow keeps of it while it is open
    """

    path: str
    size: int
    schema: Any
    open_bytes: int = 0

    @abstractmethod
    def __init__(self, path: str, kinds: Mapping[str, str], check: "Check") -> None:
        """Open it; see `open_source`."""

    def reading_bytes(self, names: Collection[str]) -> int:
        """Return what pyarrow takes next to that and to the rows, while it reads these columns."""
        return 0

    @abstractmethod
    def read(self, names: Sequence[str], n_rows: int) -> Iterator[FileRows]:
        """Yield the rows, up to `n_rows` at a time, with these columns alone."""


class _Parquet(TableFile):
    def __init__(self, path: str, kinds: Mapping[str, str], check: "Check") -> None:
        import pyarrow.parquet as pq

        self.path, self.size = path, os.path.getsize(path)
        self.open_bytes = _FOOTER_SHARE * _footer_bytes(path, self.size)
        check(path, self.open_bytes, self.open_bytes, 0)
        with _as_input(path):
            file = _opened(path)
            metadata = pq.read_metadata(file)
            self.schema = _read_as(metadata.schema.to_arrow_schema())
            self._as_dictionaries = _with_dictionaries(metadata, self.schema)
            self._file = pq.ParquetFile(
                file, metadata=metadata, pre_buffer=False, buffer_size=_PARQUET_BUFFER_BYTES,
                memory_map=False, read_dictionary=self._as_dictionaries,
            )  # fmt: skip

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[FileRows]:
        """Yield the rows."""
        n_groups, threads = self._file.num_row_groups, arrow().cpu_count()
        named = set(names)
        for group in range(n_groups):
            place, first = f"{self.path}, row group {group}", 1
            done = self.size * (group + 1) // n_groups
            fitting = self._fitting(group, place, named, n_rows)
            with _as_input(place):
                batches = self._file.iter_batches(
                    fitting, [group], list(names), use_threads=threads > _OWN_THREAD_ENOUGH
                )
            while (batch := _next(batches, place)) is not None:
                yield _part(place, first, batch, names, done)
                first += batch.num_rows

    def reading_bytes(self, names: Collection[str]) -> int:
        """Return what chunks of these columns take: those of the largest group."""
        metadata, named = self._file.metadata, set(names)
        groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
        if not groups:
            return 0
        group = max(groups, key=lambda group: group.total_byte_size)
        n_bytes = 0
        with open(self.path, "rb", buffering=0) as stream:
            for k in range(group.num_columns):
                chunk = group.column(k)
                name = chunk.path_in_schema
                if name in named or name.partition(".")[0] in named:
                    n_bytes += _chunk_bytes(stream, chunk)
        return n_bytes

    def _fitting(self, group: int, place: str, names: Collection[str], n_rows: int) -> int:
        """Return how many rows of a group take what `n_rows` of short values do, or `n_rows`.

        Text that is too long is refused before it is read: pages of it may take more than there is,
        and a value of a dictionary may be in each row.
        """
        metadata, n_bytes, longest = self._file.metadata.row_group(group), 0, 0
        part_bytes = n_rows * CELL_BYTES * len(names)
        for k in range(metadata.num_columns):
            chunk = metadata.column(k)
            name = chunk.path_in_schema
            if name not in names and name.partition(".")[0] not in names:
                continue
            n_bytes += chunk.total_uncompressed_size
            if chunk.physical_type != "BYTE_ARRAY":
                continue
            average = chunk.total_uncompressed_size // max(chunk.num_values, 1)
            if average > 2 * LONGEST_VALUE:
                raise _too_long(f"{place}, column {name}", f"values of {average} bytes on average")
            if chunk.has_dictionary_page and name not in self._as_dictionaries:
                most, is_one = _longest_in_dictionary(
                    self.path, chunk, n_rows, part_bytes, closely=group == 0
                )
                if is_one and most > LONGEST_VALUE:
                    raise _too_long(f"{place}, column {name}", f"a value of {most} bytes")
                longest += most * -(-chunk.num_values // max(metadata.num_rows, 1))
        fitting: int = part_bytes * metadata.num_rows // max(n_bytes, 1)
        return max(min(n_rows, fitting, part_bytes // max(longest, 1)), 1)


def _footer_bytes(path: str, size: int) -> int:
    """Return how long the metadata of a file of Parquet are; 0 if it has no end."""
    with open(path, "rb", buffering=0) as stream:
        stream.seek(max(size - 8, 0))
        end = stream.read(8)
    return min(int.from_bytes(end[:4], "little"), size) if end[4:] == b"PAR1" else 0


def _chunk_bytes(stream: Any, chunk: Any) -> int:
    """Return what pyarrow takes to read a chunk of a column, next to the rows that it gives.

    It has a buffer of the file, a page, and the dictionary, as it is in the file and decoded. Of
    numbers of 3 digits in 4,000 chunks of 1,000 rows it took 36 KB a chunk, where this is 39.
    """
    whole: int = chunk.total_uncompressed_size
    page, dictionary = min(whole, _PAGE_BYTES), 0
    with contextlib.suppress(UnknownPageError):
        page = min(page, page_bytes(stream, chunk.data_page_offset))
    start = chunk.dictionary_page_offset
    if chunk.has_dictionary_page and start is not None:
        dictionary = min(whole, _PAGE_BYTES)
        with contextlib.suppress(UnknownPageError):
            dictionary = min(dictionary, page_bytes(stream, start))
    buffer: int = min(chunk.total_compressed_size, _PARQUET_BUFFER_BYTES)
    return _CHUNK_BYTES + buffer + page + 2 * dictionary


def _too_long(place: str, what: str) -> InputError:
    name = place.rpartition(" ")[2]
    return InputError(
        f"{place}: {what}, more than {LONGEST_VALUE}",
        f"leave the column out with --drop {name}, or write lists of words",
    )


def _longest_in_dictionary(
    path: str, chunk: Any, n_rows: int, part_bytes: int, closely: bool
) -> tuple[int, bool]:
    """Return at most how long a value of a dictionary is, and whether there is one as long.

    To look at a page of 1 MB takes 2 ms. It is not done if any value fits into each row of a part;
    or, unless `closely`, if values are short on average: then the average is returned.
    """
    start, n_bytes = chunk.dictionary_page_offset, chunk.total_compressed_size
    try:
        with open(path, "rb", buffering=0) as stream:
            page = read_dictionary(stream, start or 0, n_bytes)
            if page.most_bytes * n_rows <= part_bytes:
                return page.most_bytes, False
            average = -(-page.most_bytes // page.n_values)
            if average <= CELL_BYTES and not closely:
                return average, False
            return page.longest(stream, chunk.compression), True
    except UnknownPageError:
        return chunk.total_uncompressed_size, False


def _with_dictionaries(metadata: Any, schema: Any) -> list[str]:
    """Return the columns of text that have few values, which the file keeps as dictionaries.

    They are read as they are kept: that is faster than reading each value, and each is hashed once.
    Arrow gives the whole dictionary with each record batch, so large ones would cost more than
    their values.
    """
    text = {field.name for field in schema if str(field.type) in ("string", "large_string")}
    n_groups = metadata.num_row_groups
    groups = [metadata.row_group(g) for g in sorted({0, n_groups // 2, n_groups - 1}) if n_groups]
    found = []
    for k in range(metadata.num_columns if groups else 0):
        chunks = [group.column(k) for group in groups]
        if chunks[0].path_in_schema in text and all(
            chunk.has_dictionary_page
            and chunk.dictionary_page_offset is not None
            and 0 < chunk.data_page_offset - chunk.dictionary_page_offset <= _DICTIONARY_BYTES
            and chunk.total_uncompressed_size <= _DICTIONARY_BYTES + CELL_BYTES * chunk.num_values
            for chunk in chunks
        ):
            found.append(chunks[0].path_in_schema)
    return found


class _Ipc(TableFile):
    """A file with a footer: Feather version 2 is one."""

    def __init__(self, path: str, kinds: Mapping[str, str], check: Check) -> None:
        import pyarrow.ipc as ipc

        self.path, self.size = path, os.path.getsize(path)
        with _as_input(path), _opened(path) as file, ipc.open_file(file) as reader:
            self.schema = _read_as(reader.schema)

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[FileRows]:
        """Yield the rows."""
        import pyarrow.ipc as ipc

        fields = sorted(self.schema.get_field_index(name) for name in names)
        with _as_input(self.path):
            file, options = _opened(self.path), ipc.IpcReadOptions(included_fields=fields)
            reader = ipc.open_file(file, options=options)
        with file, reader:
            n_batches = reader.num_record_batches
            for k in range(n_batches):
                place, done = f"{self.path}, record batch {k}", self.size * (k + 1) // n_batches
                with _as_input(place):
                    batch = reader.get_batch(k)
                    batch.validate()
                yield from _cut(place, batch, names, n_rows, done)


class _Stream(TableFile):
    """Arrow record batches one after the other, without a footer."""

    def __init__(self, path: str, kinds: Mapping[str, str], check: Check) -> None:
        import pyarrow.ipc as ipc

        self.path, self.size = path, os.path.getsize(path)
        with _as_input(path), _opened(path) as file, ipc.open_stream(file) as reader:
            self.schema = _read_as(reader.schema)

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[FileRows]:
        """Yield the rows."""
        import pyarrow.ipc as ipc

        with _as_input(self.path):
            file, k = _opened(self.path), 0
            reader = ipc.open_stream(file)
        with file, reader:
            while (batch := _next(reader, f"{self.path}, record batch {k}")) is not None:
                done = file.tell()
                yield from _cut(f"{self.path}, record batch {k}", batch, names, n_rows, done)
                k += 1


class _Csv(TableFile):
    """Text with a header; the recipe, where there is one, says of what type a column is."""

    def __init__(self, path: str, kinds: Mapping[str, str], check: Check) -> None:
        self.path, self.size = path, os.path.getsize(path)
        with open(path, "rb") as stream:
            head = stream.read(4)
        if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise InputError(f"{path}: is UTF-16", "convert it, as by iconv -f UTF-16 -t UTF-8")
        for magic, (what, fix) in _NOT_TEXT.items():  # which pyarrow takes for text
            if head.startswith(magic):
                raise InputError(f"{path}: is {what}, which tables are not read from", fix)
        found = (name for magic, name in _COMPRESSED.items() if head.startswith(magic))
        self._compression: str | None = next(found, None)
        tabs = re.search(r"\.(tsv|tab)(\.[a-z0-9]+)?$", path) is not None
        self._delimiter = "\t" if tabs else ","
        self._kinds = kinds
        text = {n: _csv_type(kind) for n, kind in kinds.items() if kind in _CSV_TEXT}
        if self._compression is not None:
            self._refuse_inner()
        with _as_input(path):
            self._n_columns = len(next(self._lines(), (1, []))[1])
        whole = self._once_open() + _CSV_READING_BYTES * self._n_columns
        check(path, self._once_open(), whole, self._n_columns)
        with self._placed():
            with self._text() as stream:  # the second block tells where the first one ends
                head = stream.read(2 * _CSV_BLOCK_BYTES)
            with self._reader(arrow().BufferReader(head), _CSV_BLOCK_BYTES, [], text) as reader:
                self.schema = reader.schema
                if any(map(self._is_looked_at, self.schema)):
                    self._look_at(reader.read_next_batch())
        short = len(head) < _SHORT_ROW_BYTES * head.count(b"\n")
        self._block_bytes = [_CSV_SMALL_BLOCK_BYTES, _CSV_BLOCK_BYTES][not short :]
        for place, field in enumerate(self.schema):
            if kinds.get(field.name) == "timestamp" and str(field.type) == "date32[day]":
                midnight = field.with_type(arrow().timestamp("s"))  # what has no time has this
                self.schema = self.schema.set(place, midnight)
            if str(field.type) == "binary":
                raise self._not_utf8(f"column {field.name}")

    def _refuse_inner(self) -> None:
        """Refuse what is no text once it is decompressed."""
        with _as_input(self.path), self._text() as stream:
            head = stream.read(8)
        if any(head.startswith(magic) for magic in (*_NOT_TEXT, *(magic for magic, _ in _READERS))):
            raise InputError(
                f"{self.path}: holds a file that is compressed, but no text", "decompress it"
            )

    def _is_guessed_text(self, field: Any) -> bool:
        return str(field.type) == "string" and field.name not in self._kinds

    def _is_looked_at(self, field: Any) -> bool:
        return self._is_guessed_text(field) or self._kinds.get(field.name) == "category"

    def _look_at(self, batch: Any) -> None:
        """Note in the schema which text is numbers, but for a word that stands for no value.

        Also which categories are integers that pandas made floats of, as one is missing.
        """
        for place, field in enumerate(self.schema):
            if self._kinds.get(field.name) == "category":
                value = _fraction_zero(batch.column(place))
                if value is not None:
                    noted = field.with_metadata({FRACTION_ZERO: value.encode()})
                    self.schema = self.schema.set(place, noted)
            if self._is_guessed_text(field):
                word = _missing_word(batch.column(place))
                if word is not None:
                    noted = field.with_metadata({MISSING_WORD: word.encode()})
                    self.schema = self.schema.set(place, noted)

    def _once_open(self) -> int:
        """Return what a reader takes before its first rows: little where there are few columns."""
        return _CSV_AHEAD_BYTES + _CSV_COLUMN_BYTES * self._n_columns

    def reading_bytes(self, names: Collection[str]) -> int:
        """Return what a reader takes."""
        return self._once_open() + _CSV_READING_BYTES * len(names)

    def _text(self, file: Any = None) -> Any:
        """Open the text, decompressed, of the file or of one that is open."""
        return arrow().input_stream(file or _opened(self.path), self._compression, 1 << 16)

    def _reader(
        self, text: Any, block_bytes: int, names: Sequence[str], types: Mapping[str, Any]
    ) -> Any:
        """Return a CSVStreamingReader of these columns; of all if none are named.

        Types that are not given are inferred from the first block.
        """
        import pyarrow.csv as arrow_csv

        return arrow_csv.open_csv(
            text,
            arrow_csv.ReadOptions(use_threads=True, block_size=block_bytes),
            arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                include_columns=list(names),
                column_types=dict(types),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[FileRows]:
        """Yield the rows."""
        import pyarrow as pa

        types = {}
        for name in names:
            kind = self.schema.field(name).type
            if name in self._kinds:
                types[name] = _csv_type(self._kinds[name], kind)
            else:  # a later block may have a fraction
                types[name] = pa.float64() if pa.types.is_integer(kind) else kind
        whole = {n for n in names if pa.types.is_integer(self.schema.field(n).type)}
        first = 1
        for batch, bytes_read in self._batches(names, types):
            for start in range(0, batch.num_rows, n_rows):
                rows = batch.slice(start, n_rows)
                columns = _columns(rows, names)
                part = _Lines(self.path, first, columns, rows.num_rows, bytes_read, self._line_of)
                _refuse_rounded(part, whole)
                yield part
                first += rows.num_rows

    def _batches(self, names: Sequence[str], types: Mapping[str, Any]) -> Iterator[tuple[Any, int]]:
        """Yield record batches of all rows, and how many bytes of the file were read by then.

        Where a row is too long for small blocks, those after it are read in large ones.
        """
        done = 0
        for block_bytes in self._block_bytes:
            n_before, done = done, 0
            try:
                with self._placed():
                    file = _opened(self.path)
                    reader = self._reader(self._text(file), block_bytes, names, types)
                with reader:
                    while True:
                        with self._placed():
                            batch = next(reader, None)
                        if batch is None:
                            return
                        rest = batch.slice(max(n_before - done, 0))
                        done += batch.num_rows
                        if rest.num_rows:
                            yield rest, file.tell()
            except _LongRow as error:
                if block_bytes == _CSV_BLOCK_BYTES:
                    line = self._long_line()
                    place = self.path if line is None else f"{self.path}, line {line}"
                    raise InputError(f"{place}: {error.what}", error.fix) from error

    @contextlib.contextmanager
    def _placed(self) -> Iterator[None]:
        """Turn an error of pyarrow into one that says which line it is."""
        try:
            with _as_input(self.path):
                yield
        except InputError as error:
            if "straddling" in error.what:
                raise _LongRow(
                    f"a row of more than {format_size(_CSV_BLOCK_BYTES)}, or a quotation mark that "
                    "is not closed",
                    "correct it, or write long rows as Parquet or Arrow",
                ) from error
            if isinstance(error.__cause__, UnicodeDecodeError):
                raise self._not_utf8("the name of a column") from error
            column = re.search(r"column #(\d+): (.*)", error.what)
            name = None if column is None else self.schema.names[int(column[1])]
            if column is not None and "UTF8" in column[2]:
                raise self._not_utf8(f"column {name}") from error
            line = self._find(error.what)
            if line is None:
                raise
            what = error.what.removeprefix(f"{self.path}: ")
            if column is not None:
                what = column[2]
            if name is not None:
                place = f"{self.path}, line {line}, column {name}"
                raise WrongValue(f"{place}: {what}", "correct it", name) from error
            fix = error.fix
            if column is None:
                separators = "tabs" if self._delimiter == "\t" else "commas"
                fix = (
                    f"separate columns by {separators}, and write text with {separators} or ends "
                    "of lines in double quotes: a carriage return ends one, too, and pandas quotes "
                    "it with quoting=csv.QUOTE_NONNUMERIC"
                )
            raise InputError(f"{self.path}, line {line}: {what}", fix) from error

    def _not_utf8(self, what: str) -> InputError:
        """Return the error for text that is not UTF-8, with its line."""
        place = self.path
        with self._text() as stream:
            for number, line in enumerate(io.BufferedReader(stream), 1):
                try:
                    line.decode()
                except UnicodeDecodeError:
                    place = f"{self.path}, line {number}"
                    break
        return InputError(f"{place}: {what} is not UTF-8", "convert the file, as by iconv -t UTF-8")

    def _find(self, problem: str) -> int | None:
        """Return the first line with what pyarrow complains of; None if there is none."""
        length = re.search(r"Expected (\d+) columns, got \d+", problem)
        value = re.search(r"column #(\d+): .*invalid value '(.*)'", problem)
        if length is None and value is None:
            return None
        for line, cells in self._lines():
            if length is not None:
                found = len(cells) != int(length[1])
            else:
                assert value is not None
                k = int(value[1])
                found = k < len(cells) and cells[k] == value[2]
            if found:
                return line
        return None

    def _long_line(self) -> int | None:
        """Return the line of the first row that does not fit in a block; None if all do."""
        for line, cells in self._lines():
            if not cells or sum(len(cell.encode()) for cell in cells) > _CSV_BLOCK_BYTES:
                return line
        return None

    def _line_of(self, row: int) -> int:
        """Return in which line a row begins, counted from 1, without the header."""
        return next(line for k, (line, _) in enumerate(self._lines()) if k == row)

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows, the header first, and in which line each begins: some have several.

        A row with a value that does not fit in a block is the last one, without its cells.
        """
        before = csv.field_size_limit(_CSV_BLOCK_BYTES)  # pyarrow has none but that of a block
        first = 1
        try:
            with self._text() as stream:
                text = io.TextIOWrapper(stream, "utf-8", "replace", newline="")
                lines = csv.reader(text, delimiter=self._delimiter)
                for cells in lines:
                    if cells:
                        yield first, cells
                    first = lines.line_num + 1
        except csv.Error:
            yield first, []
        finally:
            csv.field_size_limit(before)


@dataclass(frozen=True)
class _Lines(FileRows):
    """Rows of CSV."""

    line_of: Callable[[int], int]

    def at(self, row: int) -> str:
        """Return in which line a row is."""
        return f"{self.place}, line {self.line_of(self.number(row))}"


class _Keyed(TableFile):
    """A file with columns of one value each, which its folders tell, after its own."""

    def __init__(self, source: TableFile, keys: Mapping[str, str | None]) -> None:
        pa = arrow()
        twice = sorted(keys.keys() & set(source.schema.names))
        if twice:
            raise InputError(
                f"{source.path}: column {twice[0]} is in the file and in the names of its folders",
                "leave it out of the files, or name the files themselves",
            )
        self.path, self.size, self._source, self._keys = source.path, source.size, source, keys
        self.open_bytes = source.open_bytes
        kind = pa.dictionary(pa.int32(), pa.string())
        self.schema = source.schema
        for key in keys:
            self.schema = self.schema.append(pa.field(key, kind))

    def reading_bytes(self, names: Collection[str]) -> int:
        """Return what the file takes."""
        return self._source.reading_bytes([name for name in names if name not in self._keys])

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[FileRows]:
        """Yield the rows."""
        pa = arrow()
        stored = [name for name in names if name not in self._keys]
        for part in self._source.read(stored or self._source.schema.names[:1], n_rows):
            columns = {name: part.columns[name] for name in stored}
            for name in set(names) - set(stored):
                codes = pa.array(np.zeros(part.n_rows, np.int32))
                value = pa.array([self._keys[name]], pa.string())
                columns[name] = pa.DictionaryArray.from_arrays(codes, value)
            yield replace(part, columns=columns)


_READERS: tuple[tuple[bytes, type[TableFile]], ...] = (
    (b"PAR1", _Parquet),
    (b"ARROW1", _Ipc),
    (b"\xff\xff\xff\xff", _Stream),
)


@dataclass(frozen=True)
class Found:
    """A file of a table."""

    path: str
    keys: dict[str, str | None]  # what ``key=value`` folders on the way tell


def find_files(inputs: Iterable[str]) -> list[Found]:
    """Return the files that are meant: folders stand for all in them, patterns for what fits.

    Names that begin with ``.`` or ``_`` in a folder are left out, as by other readers of tables.
    Folders in it that are named ``key=value`` are a column of text.

    UsageError is raised if there are none, or one is standard input; StorageError if a folder
    cannot be read.
    """
    files: list[Found] = []
    for name in inputs:
        if name == "-":
            raise UsageError("a table is a file: it cannot be standard input", "name a file")
        if is_url(name):
            raise UsageError(
                f"{shown_name(name)}: tables are read from this machine, and not from URLs",
                "fetch the file first",
            )
        if os.path.isdir(name):
            found = list(_files_in(name))
        elif not os.path.exists(name) and glob.has_magic(name):
            found = sorted(path for path in glob.glob(name, recursive=True) if os.path.isfile(path))
        else:
            found = [name]
        base = name if os.path.isdir(name) else None
        if not found:
            raise UsageError(f"{name}: no files", "check the name")
        files += [Found(path, {} if base is None else _keys_of(base, path)) for path in found]
    return files


def _files_in(folder: str) -> Iterator[str]:
    with storage_errors(folder, "read"):
        for place, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if name[0] not in "._")
            yield from (os.path.join(place, n) for n in sorted(names) if n[0] not in "._")


def _keys_of(folder: str, path: str) -> dict[str, str | None]:
    """Return the columns that the names of folders between tell, as Hive writes them."""
    keys: dict[str, str | None] = {}
    for name in os.path.relpath(os.path.dirname(path), folder).split(os.sep):
        key, equals, value = name.partition("=")
        if equals and key:
            if key in keys:
                raise InputError(f"{path}: two folders are named {key}=", "rename one of them")
            keys[unquote(key)] = None if value == _HIVE_MISSING else unquote(value)
            try:
                name.encode()
            except UnicodeEncodeError:
                raise InputError(
                    f"{path}: the name of a folder is not UTF-8, and is a column", "rename it"
                ) from None
    return keys


def open_source(file: Found, kinds: Mapping[str, str], check: Check = lambda *_: None) -> TableFile:
    """Open a file, whose kind its first bytes tell.

    MemoryBudgetError is raised by `check`, before much memory is taken; InputError if the file is
    empty, or not what it claims to be; StorageError if it cannot be read, or is a pipe or a device:
    it is read more than once.

    Parameters
    ----------
    kinds : mapping of str to str       kinds of columns that are known, which CSV does not tell
    check : callable                    refuses a file that takes too much memory
    """
    path = file.path
    if os.path.exists(path) and not os.path.isfile(path):  # to open a pipe waits for its writer
        raise StorageError(
            f"{path}: is not a regular file", "save what a pipe gives to a file, and name that"
        )
    with storage_errors(path, "read"), open(path, "rb") as stream:
        head = stream.read(8)
    if not head:
        raise InputError(f"{path}: is empty", "leave it out")
    reader = next((reader for magic, reader in _READERS if head.startswith(magic)), _Csv)
    with storage_errors(path, "read"):
        source = reader(path, kinds, check)
    return _Keyed(source, file.keys) if file.keys else source


_CSV_TEXT = ("text", "category", "words")
_MISSING_WORDS = ("NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "?", ".", "-")


def _missing_word(values: Any) -> str | None:
    """Return what stands for no value in text that is numbers otherwise; None in other text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pc.is_in(values, value_set=pa.array(_MISSING_WORDS))
    found, numbers = values.filter(words), values.filter(pc.invert(words)).drop_null()
    try:
        numbers.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    return str(found[0]) if len(found) and len(numbers) else None


def _fraction_zero(values: Any) -> str | None:
    """Return the first value if all of them end in .0, as integers of pandas do that are floats."""
    import pyarrow.compute as pc

    found = values.drop_null()
    ends = pc.match_substring_regex(found, r"^-?[0-9]+\.0$")
    return str(found[0]) if len(found) and pc.all(ends).as_py() else None


def _csv_type(kind: str, inferred: Any = None) -> Any:
    """Return the type of Arrow that a column of CSV of a kind is read as."""
    pa = arrow()
    types = {"number": pa.float64(), "boolean": pa.bool_(), "date": pa.date32()}
    return inferred if kind == "timestamp" else types.get(kind, pa.string())


def _refuse_rounded(part: FileRows, whole: Collection[str]) -> None:
    """Refuse integers in columns of integers of CSV that have no float64 of their own."""
    import pyarrow.compute as pc

    for name in whole & part.columns.keys():
        column = part.columns[name]
        if str(column.type) != "double":
            continue
        large = pc.greater(pc.abs(column), float(1 << 53) - 1)
        if pc.any(large).as_py():
            row = pc.index(large, True).as_py()
            raise WrongValue(
                f"{part.at(row)}, column {name}: an integer beyond 2**53 has no float64 of its own",
                "round it, or write a letter before each if they are names",
                name,
            )


def _opened(path: str) -> Any:
    """Return the file for pyarrow, which takes names that are not UTF-8 as bytes alone."""
    return arrow().OSFile(os.fsencode(path))


def _read_as(schema: Any) -> Any:
    """Return the schema of the columns that `_columns` gives."""
    fields = [field.with_type(without_views(field.type)) for field in schema]
    return arrow().schema(fields, schema.metadata)


def _columns(batch: Any, names: Sequence[str]) -> dict[str, Any]:
    columns = {}
    for name in names:
        array = batch.column(batch.schema.get_field_index(name))
        kind = without_views(array.type)
        columns[name] = array if array.type == kind else array.cast(kind)
    return columns


def _part(place: str, first: int, batch: Any, names: Sequence[str], done: int) -> FileRows:
    with _as_input(place):
        columns = _columns(batch, names)
    return FileRows(place, first, columns, batch.num_rows, done)


def _cut(
    place: str, batch: Any, names: Sequence[str], n_rows: int, done: int
) -> Iterator[FileRows]:
    for start in range(0, batch.num_rows, n_rows):
        yield _part(place, start + 1, batch.slice(start, n_rows), names, done)


def _next(batches: Iterator[Any], place: str) -> Any:
    """Return the next record batch, None at the end."""
    with _as_input(place):
        return next(iter(batches), None)


@contextlib.contextmanager
def _as_input(place: str) -> Iterator[None]:
    """Turn an error of pyarrow into one of input, that says where."""
    pa = arrow()
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        text = " ".join(str(error).split())
        text = text if len(text) <= 400 else f"{text[:400]}..."
        raise InputError(f"{place}: {text}", "write the file again, or leave it out") from error
