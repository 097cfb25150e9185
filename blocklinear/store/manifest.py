"""The manifest: what a store holds, and the one commit point.

``manifest.json`` is a JSON object ``{"checksum": sha256, "manifest": {...}}``; the checksum is
taken over the canonical JSON of the inner object (sorted keys, no blanks). Unknown, missing or
inconsistent fields are refused before memory is allocated from them.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Collection
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, get_origin

import numpy as np
from numpy.typing import NDArray

from blocklinear import __version__
from blocklinear.classes import Class, from_json
from blocklinear.errors import DamagedError, MismatchError, StorageError, storage_errors
from blocklinear.memory import format_size
from blocklinear.numerals import counted
from blocklinear.store import shapes
from blocklinear.store.files import aside_name, atomic_write, read_regular
from blocklinear.store.records import IN_FILE, BlockRecord, FeatureFile
from blocklinear.store.remote.mirror import check_sha256, fetched, fix_of_damage
from blocklinear.store.weight_stats import WeightStats, together
from blocklinear.store.weight_stats import check as check_weight_stats

FORMAT = 16
"""The newest. Formats 1 and 2 have features numbered as in the input, 3 and 4 by the store; rows
have weights in formats 2 and 4. Formats 5 to 8 are these with classes or names of features. Formats
9 to 16 are these eight made of tables, by a recipe; 9, 10, 13 and 14 are not written. Each is read
for ever."""
_WEIGHTED, _RENUMBERED, _NAMED, _TABLES = (
    tuple(number for number in range(1, FORMAT + 1) if (number - 1) & bit) for bit in (1, 2, 4, 8)
)
NAME = "manifest.json"
RECIPE_NAME = "recipe.json"
"""Next to it in stores of tables; it never changes, and the manifest has its digest."""
MAX_BYTES = 1 << 28
"""No manifest is larger: reading one takes several times that in memory."""
_LEAST_RECORD_BYTES = 180
MAX_LABELS = 10_000
"""More distinct labels than this are regression targets: they are not tabulated."""
_MAX_COUNT = 1 << 62
_LAST_SECOND = 253_402_300_799  # of the year 9999: dates are compared as text
MAX_EXPANSION = 1 << 18
"""Rows, or entries, a byte of a block file can stand for: zstd packs at most 2**15 bytes in one,
each of which may hold 8 numbers of one bit."""
_BLOCK_NAME = re.compile(r"b[0-9]{8}\.blk")
_FEATURE_FILE_NAME = re.compile(r"f[0-9]{8}\.map")
_NAMES = shapes.fields(
    {"file": shapes.text, "names": shapes.count, "size": shapes.count, "bytes": shapes.count,
     "sha256": shapes.text}
)  # fmt: skip
_NAMES_FILE_NAME = re.compile(r"n[0-9]{8}\.zst")
_NAMES_IN_FILE = {f.name: f.metadata[IN_FILE] for f in fields(BlockRecord) if f.metadata}
_COMPRESSION = re.compile(r"none|zstd(?::(-?[0-9]{1,2}))?")
_FILE = {
    "path": shapes.text,
    "size": shapes.count,
    "mtime_ns": shapes.maybe(shapes.integer(-shapes.MOST)),
    "sha256": shapes.maybe(shapes.text),
}
_COUNTED = dict.fromkeys(("rows", "lines", "blank", "zeros", "skipped"), shapes.count)
_LATER = ("sorted_rows", "merged_entries", "hash_collisions", "ignored_qids")
_SOURCE = shapes.fields(
    {**_FILE, **_COUNTED, "final_newline": shapes.flag},
    {"xxh64": shapes.text, **dict.fromkeys(_LATER, shapes.count)},
)
_BATCH = {
    "name": shapes.text, "date": shapes.text, "rows": shapes.count,
    "sources": shapes.items(_SOURCE),
}  # fmt: skip
_WEIGHTED_BATCH = {**_BATCH, "weights": shapes.items(shapes.fields(_FILE, {"xxh64": shapes.text}))}
_BATCHES = {
    False: shapes.items(shapes.fields(_BATCH)),
    True: shapes.items(shapes.fields(_WEIGHTED_BATCH)),
}
_MOVED = shapes.mapping(shapes.row(shapes.text, shapes.count))


@dataclass(frozen=True)
class Manifest:
    """What a store holds.

    Attributes
    ----------
    format : int              1 and a sum: 1 if rows have weights, 2 if features are renumbered, 4
                              if there are classes or names of features, 8 if rows were made of
                              tables
    generation : int          number of commits so far
    written_by : str          version that wrote it
    seed : int                seed of the random assignment
    order : str               "random", or "file" for rows in input order
    index_base : int          smallest index that the input may have
    hash_bits : int           indices are hashes of this many bits; 0 if they are as in the input
    n_features : int          columns of the blocks: features that occur, or `dimension` of them
                              where they are not renumbered
    n_rows, nnz : int
    next_row, next_block : int    first numbers that were never used
    dtype : str               "float64" or "float32": what values are rounded to when read
    compression : str         "none" or "zstd:LEVEL"
    normalize : str           "none", or "l2" for rows that are divided by their norm when read
    labels : list[float] or None    in order of first appearance, those whose rows were removed
                              since the last `gc` included; None when there are, or were, too many
    batches : list[dict]      name, date (UTC, of its commit), rows, sources (path, size, mtime_ns,
                              xxh64, sha256, rows, lines, ...; as they were read). sha256 is null
                              unless asked for; sources read by 0.1.0 have no xxh64 but always it.
                              Where rows have weights, these too: the files of weights, with size
                              and digests
    blocks : list[BlockRecord]      in the order of their numbers
    removed : list[BlockRecord]     blocks whose rows were removed; their files stay until `gc`
    moved : dict[str, list]   where the rows of a block went that was merged into another one:
                              ``{old name: [new name, position of the first row in it]}``
    dimension : int           features of the input, and of models: the largest index less
                              `index_base`, plus 1. Written where features are renumbered
    features : list[FeatureFile]        hold the index of each feature number. Written where these
                              are renumbered; else the number is index - `index_base`
    classes : dict            labels as given, by the numbers they have in blocks, where these are
                              others: see `blocklinear.classes`. Written where the sum has 4
    names : dict              of the features of the input, the first ones: file in ``features/``,
                              names in it, its size, bytes unpacked, sha256; empty if there are
                              none. Written where the sum has 4
    recipe : str              SHA-256 of the recipe that makes rows of tables. Written where the sum
                              has 8
    """

    format: int
    generation: int
    written_by: str
    seed: int
    order: str
    index_base: int
    hash_bits: int
    n_features: int
    n_rows: int
    nnz: int
    next_row: int
    next_block: int
    dtype: str
    compression: str
    normalize: str
    labels: list[float] | None
    batches: list[dict[str, Any]]
    blocks: list[BlockRecord]
    removed: list[BlockRecord] = field(default_factory=list)
    moved: dict[str, list[Any]] = field(default_factory=dict)
    dimension: int = 0
    features: list[FeatureFile] = field(default_factory=list)
    classes: dict[str, Any] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    recipe: str = ""

    def __post_init__(self) -> None:
        if not self.renumbered:
            object.__setattr__(self, "dimension", self.n_features)

    @property
    def renumbered(self) -> bool:
        """Whether features have numbers of the store's own."""
        return self.format in _RENUMBERED

    @property
    def given(self) -> dict[float, Class]:
        """Labels as they were given, by the numbers they have in blocks, where these are others."""
        return from_json(self.classes)

    @property
    def of_tables(self) -> bool:
        """Whether rows were made of tables, by a recipe."""
        return self.format in _TABLES

    @property
    def column_base(self) -> int:
        """What is subtracted from an index in a block to get a column."""
        return 0 if self.renumbered else self.index_base

    @cached_property
    def label_counts(self) -> list[int]:
        """Rows per label, in the order of `labels`."""
        columns = zip(*(block.label_counts for block in self.blocks), strict=True)
        return [sum(column) for column in columns]

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.format in _WEIGHTED

    @cached_property
    def weights(self) -> WeightStats:
        """What there is to say of the weights of all rows; where they have none, each weighs 1."""
        if self.weighted:
            return together(block.weights for block in self.blocks)
        sums = [float(count) for count in self.label_counts]
        total = float(self.n_rows)
        return {"zeros": 0, "least": 1.0, "largest": 1.0, "total": total, "sums": sums}

    def counted_anew(self) -> Self:
        """Return it with the rows and entries of its blocks, and the batches that have blocks."""
        rows: dict[str, int] = {}
        for block in self.blocks:
            rows[block.batch] = rows.get(block.batch, 0) + block.rows
        return replace(
            self,
            n_rows=sum(rows.values()),
            nnz=sum(block.nnz for block in self.blocks),
            batches=[b | {"rows": rows[b["name"]]} for b in self.batches if b["name"] in rows],
        )

    def total(self, count: str) -> int:
        """Return a count of the sources, as ``sorted_rows``, added up."""
        return sum(source.get(count, 0) for b in self.batches for source in b["sources"])

    @cached_property
    def first_positions(self) -> NDArray[np.int64]:
        """The position in the store of the first row of each block, and the number of rows."""
        rows = [block.rows for block in self.blocks]
        return np.concatenate(([0], np.cumsum(rows))).astype(np.int64)

    @property
    def fingerprint(self) -> str:
        """A digest of the content: equal for stores that hold the same blocks and features."""
        parts = [b.envelope_sha256 for b in self.blocks] + [file.sha256 for file in self.features]
        parts += [self.recipe] if self.of_tables else []
        return hashlib.sha256("".join(parts).encode()).hexdigest()

    def save(self, folder: Path) -> None:
        """Commit: make this the manifest of the store in `folder`, durably.

        Raises
        ------
        StorageError
            If it cannot be written, or is larger than `load` reads; the one before is intact then.
        """
        n_blocks, n_labels = len(self.blocks) + len(self.removed), len(self.labels or ())
        refuse_many(n_blocks, n_labels)
        content = {one.name: getattr(self, one.name) for one in fields(self)}
        for kind in ("blocks", "removed"):
            content[kind] = [self._in_file(block) for block in content[kind]]
        content["features"] = [vars(file) for file in self.features]
        for name in _absent(self.format):
            del content[name]
        text = sealed("manifest", content)
        if len(text) > MAX_BYTES:
            raise _too_large(len(text), n_blocks, n_labels)
        with atomic_write(folder / NAME) as stream:
            stream.write(text)

    def _in_file(self, block: BlockRecord) -> dict[str, Any]:
        """Return what the file says of a block; its many counts are not copied."""
        found = {_NAMES_IN_FILE.get(name, name): value for name, value in vars(block).items()}
        if not self.weighted:  # as versions that do not know weights wrote
            del found["weights"]
        return found

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read and check the manifest of the store in `folder`.

        Raises
        ------
        DamagedError
            If it is missing in `folder`, altered or inconsistent.
        MismatchError
            If a newer version wrote it.
        StorageError
            If there is no such folder, or it cannot be read.
        """
        path = folder / NAME
        return cls.parse(_read_manifest(path), str(path))

    @classmethod
    def parse(cls, text: bytes, path: str) -> Self:
        """Check a manifest that was read from `path`.

        Raises
        ------
        DamagedError, MismatchError
            As `load` does.
        """
        try:
            inner = unsealed("manifest", text, "a manifest")
            shapes.fields({"format": shapes.integer(1, 1 << 100)}, more=True)(inner, "")
            if inner["format"] > FORMAT:
                raise MismatchError(
                    f"{path}: format {inner['format']}, written by blocklinear "
                    f"{str(inner.get('written_by'))[:40]}; this is {__version__}",
                    "use that version or a newer one",
                )
            manifest = cls(**_fields(cls, inner, _absent(inner["format"])))
            absent = () if manifest.weighted else ("weights",)
            records = {
                kind: [BlockRecord(**_fields(BlockRecord, block, absent)) for block in inner[kind]]
                for kind in ("blocks", "removed")
            }
            files = [FeatureFile(**_fields(FeatureFile, file)) for file in manifest.features]
            manifest = cls(**{**vars(manifest), **records, "features": files})
            manifest.check()
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DamagedError(
                f"{path}: damaged: {error}", "split the data again, or restore the store"
            ) from error
        return manifest

    def read_recipe(self, folder: Path) -> Any:
        """Return the recipe of the store in `folder` as JSON has it, None if it has none.

        Raises
        ------
        DamagedError
            If it is missing, or is not the one that is named here.
        """
        if not self.of_tables:
            return None
        path, fix = folder / RECIPE_NAME, "restore the store, or split the tables again"
        fetched(path, lambda: check_sha256(path, self.recipe))
        with storage_errors(path, "read"):
            try:
                text = read_regular(path, MAX_BYTES)
            except FileNotFoundError as error:
                raise DamagedError(f"{path}: is missing", fix) from error
        if hashlib.sha256(text).hexdigest() != self.recipe:
            raise DamagedError(
                f"{path}: damaged: it is not the one that the store names",
                fix_of_damage(path, fix),
            )
        return json.loads(text)

    def check(self) -> None:
        """Raise ValueError where the parts contradict each other."""
        self._check_counts()
        self._check_labels()
        self._check_batches()
        self._check_weights()
        self._check_names()
        if self.n_rows != sum(b.rows for b in self.blocks):
            raise ValueError("the rows of the blocks do not add up")
        if self.nnz != sum(b.nnz for b in self.blocks):
            raise ValueError("the entries of the blocks do not add up")
        if any(b.max_index - self.column_base >= self.n_features for b in self.blocks):
            raise ValueError("a block has more features than the store")
        if (re.fullmatch("[0-9a-f]{64}", self.recipe) is not None) != self.of_tables:
            raise ValueError("it has a recipe in a format that knows none, or has none")
        if self.format < 1 or not 0 <= self.seed < 1 << 63:
            raise ValueError("its format or its seed is out of range")
        level = _COMPRESSION.fullmatch(self.compression)
        if self.order not in ("random", "file") or not level or not -7 <= int(level[1] or 1) < 20:
            raise ValueError("an option has an unknown value")
        if self.index_base not in (0, 1) or self.dtype not in ("float64", "float32"):
            raise ValueError("an option has an unknown value")
        if self.normalize not in ("none", "l2") or not 0 <= self.hash_bits <= 31:
            raise ValueError("an option has an unknown value")
        if self.hash_bits and (self.index_base, self.dimension) != (0, 1 << self.hash_bits):
            raise ValueError("its features are not the hashes there can be")
        self._check_features()
        self._check_classes()

    def _check_classes(self) -> None:
        """Check that classes are those of labels, and what is recorded of names of features."""
        if not self.given.keys() <= set(self.labels or ()):
            raise ValueError("a class is of no label")
        if self.names:
            _NAMES(self.names, "names")
            if not _NAMES_FILE_NAME.fullmatch(self.names["file"]):
                raise ValueError("a file of names has another name than any by blocklinear")
            if self.names["names"] > self.dimension:
                raise ValueError("there are more names than features")
        if bool(self.classes or self.names) != (self.format in _NAMED):
            raise ValueError("there are classes or names in a format that knows none, or none")

    def _check_features(self) -> None:
        """Check that the files of features add up."""
        counts = [n for file in self.features for n in (file.features, file.bytes)]
        if not all(0 < n < _MAX_COUNT for n in counts):
            raise ValueError("a count is out of range")
        if any(file.features > file.bytes * MAX_EXPANSION for file in self.features):
            raise ValueError("a file has more features than its bytes can hold")
        names = [file.name for file in self.features]
        if len(set(names)) != len(names) or not all(map(_FEATURE_FILE_NAME.fullmatch, names)):
            raise ValueError("a file of features has another name than any written by blocklinear")
        if self.renumbered and self.n_features != sum(file.features for file in self.features):
            raise ValueError("the features do not add up")
        if not self.n_features <= self.dimension <= 1 << 32:
            raise ValueError("a count is out of range")

    def _check_names(self) -> None:
        """Check that every block is named once, and that rows moved to blocks there are."""
        records = [*self.blocks, *self.removed]
        names = [*(block.name for block in records), *self.moved]
        if len(set(names)) != len(names) or not all(map(_BLOCK_NAME.fullmatch, names)):
            raise ValueError("a block name is not as written by blocklinear")
        rows = {block.name: block.rows for block in records}
        _MOVED(self.moved, "moved")
        for name, first in self.moved.values():
            if first > rows[name]:
                raise ValueError("rows were moved to where no block is")

    def _check_counts(self) -> None:
        records = [*self.blocks, *self.removed]
        counts = [self.n_rows, self.nnz, self.next_row, self.next_block, self.generation]
        counts += [n for b in records for n in (b.rows, b.nnz, b.bytes)]
        for numbers in (counts, *(b.label_counts for b in records)):
            if not all(type(n) is int and 0 <= n < _MAX_COUNT for n in numbers):
                raise ValueError("a count is out of range")
        if not 0 <= self.n_features <= 1 << 32 or self.next_row < self.n_rows:
            raise ValueError("a count is out of range")
        if not all(-1 <= b.max_index < 1 << 32 for b in records):
            raise ValueError("an index is out of range")
        if any(max(b.rows, b.nnz) > b.bytes * MAX_EXPANSION for b in records):
            raise ValueError("a block has more rows or entries than its bytes can hold")

    def _check_labels(self) -> None:
        labels = [] if self.labels is None else self.labels
        if (
            type(labels) is not list
            or not all(type(label) is float for label in labels)
            or len(set(labels)) != len(labels)
        ):
            raise ValueError("the labels are not distinct numbers")
        for block in (*self.blocks, *self.removed):
            if len(block.label_counts) != len(labels):
                raise ValueError("the label counts do not fit the labels")
            if labels and sum(block.label_counts) != block.rows:
                raise ValueError("the label counts do not add up")

    def _check_weights(self) -> None:
        for block in (*self.blocks, *self.removed):
            if self.weighted:
                check_weight_stats(block.weights, block.rows, len(self.labels or ()))
            elif block.weights:
                raise ValueError("rows have weights in a format that knows none")

    def _check_batches(self) -> None:
        _BATCHES[self.weighted](self.batches, "batches")
        rows = {batch["name"]: 0 for batch in self.batches}
        for block in self.blocks:
            if block.batch not in rows:
                raise ValueError("a block is of no batch")
            rows[block.batch] += block.rows
        if [(batch["name"], batch["rows"]) for batch in self.batches] != list(rows.items()):
            raise ValueError("the rows of a batch do not add up")

    def place_of(self, row: int, batch: str) -> str:
        """Return how to find a row in the text: source and line, or row if lines were left out.

        Rows from Python, which have no lines, are counted from 0, as where one is refused.

        Where batches were forgotten, or others came between those that were made one, rows are no
        longer known by their place in a source.
        """
        sources = [source for known in self.batches for source in known["sources"]]
        dates = [known["date"] for known in self.batches]
        in_order = all(before < after for before, after in pairwise(dates))
        if not in_order or sum(source["rows"] for source in sources) != self.next_row:
            return f"batch {batch}"
        for source in sources:
            if row < source["rows"]:
                if not (source["lines"] or self.of_tables):
                    return f"row {row}, counted from 0, of {source['path']}"
                whole = source["rows"] == source["lines"] and not self.of_tables
                return f"{'line' if whole else 'row'} {row + 1} of {source['path']}"
            row -= source["rows"]
        return f"batch {batch}"


def format_of(
    weighted: bool, renumbered: bool, named: bool = False, of_tables: bool = False
) -> int:
    """Return the format of a store.

    Parameters
    ----------
    weighted : bool           whether rows have weights
    renumbered : bool         whether features have numbers of the store's own
    named : bool              whether there are classes, or names of features
    of_tables : bool          whether rows were made of tables, by a recipe
    """
    return 1 + weighted + 2 * renumbered + 4 * named + 8 * of_tables


def _absent(format_version: int) -> Collection[str]:
    """Return the fields of `Manifest` that a format does not have."""
    absent = () if format_version in _TABLES else ("recipe",)
    if format_version not in _RENUMBERED:
        absent = (*absent, "dimension", "features")
    return absent if format_version in _NAMED else (*absent, "classes", "names")


def refuse_many(n_blocks: int, n_labels: int) -> None:
    """Refuse as many blocks and labels as no manifest can hold, however small the counts.

    Raises StorageError.
    """
    least = n_blocks * (_LEAST_RECORD_BYTES + 2 * n_labels)
    if least > MAX_BYTES:
        raise _too_large(least, n_blocks, n_labels)


def _too_large(n_bytes: int, n_blocks: int, n_labels: int) -> StorageError:
    return StorageError(
        f"the manifest of {counted(n_blocks, 'block')}, with a count for each of "
        f"{counted(n_labels, 'label')}, would take {n_bytes} bytes or more; "
        f"{format_size(MAX_BYTES)} are allowed",
        "make fewer and larger blocks: give more --memory or fewer --blocks, or compact the store",
    )


def digest_name(source: dict[str, Any]) -> str:
    """Return which digest tells the content of a source."""
    return "xxh64" if "xxh64" in source else "sha256"


def today() -> str:
    """Return the date of a commit made now, in UTC, as ISO 8601; SOURCE_DATE_EPOCH can fix it.

    That is seconds since 1970, as for reproducible builds, up to the year 9999; anything else is
    ignored. Nothing else in a store depends on when it was written.
    """
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    is_date = re.fullmatch("[0-9]{1,12}", fixed) is not None and int(fixed) <= _LAST_SECOND
    seconds = int(fixed) if is_date else int(time.time())
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def sealed(name: str, content: Any) -> bytes:
    """Return an object of JSON that holds `content` under `name`, and its checksum."""
    body = _canonical(content)
    checksum = hashlib.sha256(body).hexdigest()
    return b'{"checksum":"%s","%s":%s}\n' % (checksum.encode(), name.encode(), body)


def unsealed(name: str, text: bytes, what: str) -> Any:
    """Return the content of what `sealed` returned; ValueError is raised if it is not `what`."""
    outer = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    if not isinstance(outer, dict) or set(outer) != {"checksum", name}:
        raise ValueError(f"not {what}")
    if hashlib.sha256(_canonical(outer[name])).hexdigest() != outer["checksum"]:
        raise ValueError("its checksum does not match")
    return outer[name]


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _read_manifest(path: Path) -> bytes:
    with storage_errors(path, "read"):
        try:
            return read_regular(path, MAX_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            pass
    aside = aside_name(path.parent)
    there = path.parent.exists()
    if not there and aside.is_dir():
        raise DamagedError(
            f"{path.parent}: is not there: a killed split left it as {aside.name}",
            f"give that split again, or rename {aside.name} to {path.parent.name}",
        )
    what = f"it has no {NAME}" if there else "there is no such file or folder"
    error = DamagedError if there else StorageError
    raise error(f"{path.parent}: not a store: {what}", "make one with `blocklinear split`")


def _fields(cls: type, content: Any, absent: Collection[str] = ()) -> dict[str, Any]:
    """Return `content` as keyword arguments of the dataclass `cls`; ValueError if they differ."""
    expected = {f.metadata.get(IN_FILE, f.name): f for f in fields(cls) if f.name not in absent}
    if not isinstance(content, dict) or set(content) != set(expected):
        raise ValueError("its fields are not those of this format")
    for name, declared in expected.items():
        kind = get_origin(declared.type) or declared.type
        if kind in (int, str, list, dict) and type(content[name]) is not kind:
            raise ValueError(f"field {name} is not of its type")
    return {declared.name: content[name] for name, declared in expected.items()}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a field is repeated")
    return content


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")
