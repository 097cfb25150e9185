"""A store on disk: open it, describe it, verify it."""

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from blocklinear.arguments import check_count, check_name, check_store
from blocklinear.classes import Classes, given_labels, label_text, named_labels
from blocklinear.errors import (
    BusyError,
    DamagedError,
    MismatchError,
    StorageError,
    UsageError,
    shown,
)
from blocklinear.events import BlockProgress, Listener, ignore
from blocklinear.inputs.objects import MissingError
from blocklinear.inputs.urls import is_url
from blocklinear.markup import facts_html, text_html
from blocklinear.memory import format_size
from blocklinear.numerals import counted, format_number
from blocklinear.store.blocks import BlockFile, BlockReader
from blocklinear.store.features import read_features, read_names, unnamed
from blocklinear.store.files import LOCK_NAME, Lock
from blocklinear.store.manifest import Manifest
from blocklinear.store.remote.mirror import FETCHING_BYTES, Mirror
from blocklinear.store.remote.opening import mirrored
from blocklinear.store.weight_stats import agree, weight_stats_by_label

T = TypeVar("T")
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


@dataclass
class VerifyReport:
    """What `BlockStore.verify` found."""

    blocks: int = 0
    rows: int = 0
    nnz: int = 0
    bytes: int = 0
    faults: list[str] = field(default_factory=list)
    unused_files: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return json.dumps(asdict(self))

    def summary(self) -> str:
        """Return the report as a sentence."""
        state = f"{len(self.faults)} damaged" if self.faults else "all intact"
        text = (
            f"{counted(self.blocks, 'block')}, {counted(self.rows, 'row')}, "
            f"{counted(self.nnz, 'entry', 'entries')}: {state}"
        )
        if self.unused_files:
            unused = counted(len(self.unused_files), "file in it is", "files in it are")
            text += f"; {unused} not part of the store"
        return text

    def _repr_html_(self) -> str:
        return text_html("\n".join([self.summary(), *self.faults]))


class BlockStore:
    """A directory made by `split`, or one on a URL.

    Attributes
    ----------
    folder : Path
        Of a store on a URL the folder in the cache that it is read through.
    manifest : Manifest
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int | None = None,
    ) -> Self:
        """Open the store at `path`.

        A store on a URL can be read and trained on, but not changed. Its blocks are fetched when
        they are needed, compared with their checksums, and kept.

        Parameters
        ----------
        path : path or URL
        cache : path or None
            Folder for stores on URLs; None is ``blocklinear/stores`` in the cache of the user.
        cache_bytes : int or None
            What blocks of this store may take there, except for the last 8; None is no limit.

        Raises
        ------
        DamagedError
            If it is no store, its manifest is damaged, or its folder of blocks is a link.
        MismatchError
            If a newer version wrote it.
        UsageError, StorageError
            If nothing is there, or it cannot be read.
        """
        check_name(path)
        if isinstance(path, str) and is_url(path):
            folder = mirrored(path, None if cache is None else Path(cache), cache_bytes)
            store = cls(folder, Manifest.load(folder))
        else:  # an object outlasts a change of the working directory
            store = cls(Path(path).absolute(), Manifest.load(Path(path)))
        if store.blocks_folder.is_symlink():
            raise DamagedError(
                f"{store.blocks_folder}: is a link, which could lead anywhere",
                "put the folder itself there",
            )
        return store

    @classmethod
    def of(cls, store: "BlockStore | str | os.PathLike[str]") -> "BlockStore":
        """Return `store`, or open the store at that path.

        Raises
        ------
        WrongTypeError
            If it is neither.
        DamagedError, MismatchError, StorageError
            As `open` does.
        """
        check_store(store, (BlockStore, str, os.PathLike))
        return store if isinstance(store, BlockStore) else cls.open(store)

    def __repr__(self) -> str:
        m = self.manifest
        size = (
            f"{counted(m.n_rows, 'row')}, {counted(m.dimension, 'feature')}, "
            f"{counted(len(m.blocks), 'block')}"
        )
        return f"BlockStore({self.name!r}: {size})"

    def _repr_html_(self) -> str:
        size, *lines = self.summary().split("\n")
        return facts_html(f"BlockStore {self.name}", {"size": size, "": "\n".join(lines)})

    @property
    def mirror(self) -> Mirror | None:
        """How the store is read, if it is on a URL."""
        return Mirror.at(self.folder)

    @property
    def name(self) -> str:
        """The URL of the store, or its folder."""
        mirror = self.mirror
        return str(self.folder) if mirror is None else mirror.url

    @property
    def fetching_bytes(self) -> int:
        """What fetching blocks takes in memory; 0 unless the store is on a URL."""
        return 0 if self.mirror is None else FETCHING_BYTES

    def lock(self) -> Lock:
        """Lock it for a run, which keeps its files in it.

        Raises
        ------
        BusyError, DamagedError
            As `Lock` does.
        StorageError
            If it cannot be written to.
        """
        try:
            return Lock(self.folder / LOCK_NAME)
        except StorageError as error:
            reason = error.__cause__
            if self.mirror or not isinstance(reason, OSError) or reason.errno not in _READ_ONLY:
                raise
            place = f"file://{self.folder.absolute()}"
            fix = f"name it {place}: what a run keeps then goes to --cache, as for any URL"
            raise StorageError(error.what, fix) from reason

    @property
    def blocks_folder(self) -> Path:
        """Where the block files are."""
        return self.folder / "blocks"

    @property
    def recipe(self) -> Any:
        """How tables become rows of this store, as JSON has it; None if it is not made of tables.

        Raises
        ------
        DamagedError
            If it is missing, or was altered.
        """
        return self.manifest.read_recipe(self.folder)

    @cached_property
    def named(self) -> Classes:
        """Labels as they are named, by the numbers they have in blocks, where they have names."""
        return named_labels(self.recipe, self.manifest.given)

    def code_of(self, label: object) -> float | None:
        """Return the number that a label, as it is named, has in blocks; None for None.

        Raises
        ------
        UsageError
            If it is neither a name nor a number.
        """
        if label is None:
            return None
        for code, name in self.named.items():
            if name == label:
                return code
        if isinstance(label, Real):
            return float(label)
        known = ", ".join(map(str, list(self.named.values())[:10]))
        fix = f"name one of {known}" if known else "give a number"
        raise UsageError(f"no class is {label!r}", fix)

    def describe(self) -> dict[str, Any]:
        """Return what ``info --json`` prints."""
        m = self.manifest
        mirror = self.mirror
        return {
            **({"url": mirror.url, "folder": str(self.folder)} if mirror is not None else {}),
            "rows": m.n_rows,
            "features": m.dimension,
            "renumbered": m.renumbered,
            "nnz": m.nnz,
            "blocks": len(m.blocks),
            "bytes": sum(block.bytes for block in m.blocks),
            "labels": self._labels(m.label_counts),
            "named_features": m.names.get("names", 0),
            "weights": _weights(m),
            "batches": self.batches(),
            "removed_blocks": len(m.removed),
            "removed_bytes": sum(block.bytes for block in m.removed),
            "index_base": m.index_base,
            "hash_bits": m.hash_bits,
            "normalize": m.normalize,
            "dtype": m.dtype,
            "compression": m.compression,
            "order": m.order,
            "seed": m.seed,
            "format": m.format,
            "generation": m.generation,
            "fingerprint": m.fingerprint,
            **({"recipe": self.recipe} if m.of_tables else {}),
        }

    def batches(self) -> list[dict[str, Any]]:
        """Return, as JSON, what each batch brought in and still has here."""
        m, facts = self.manifest, []
        recipe = self.recipe if m.weighted else None
        column = recipe.get("weight") if isinstance(recipe, dict) else None
        for batch in m.batches:
            blocks = [block for block in m.blocks if block.batch == batch["name"]]
            columns = zip(*(block.label_counts for block in blocks), strict=True)
            stored: dict[str, Any] = {
                "nnz": sum(block.nnz for block in blocks),
                "bytes": sum(block.bytes for block in blocks),
                "labels": self._labels([sum(column) for column in columns]),
                "blocks": [int(block.name[1:9]) for block in blocks],
            }
            if column is not None:
                stored["weights"] = [w | {"path": f"column {column}"} for w in batch["weights"]]
            facts.append(batch | stored)
        return facts

    def summary(self) -> str:
        """Return what ``info`` prints."""
        m, size = self.manifest, sum(block.bytes for block in self.manifest.blocks)
        lines = [
            f"{counted(m.n_rows, 'row')}, {counted(m.dimension, 'feature')}, "
            f"{counted(m.nnz, 'entry', 'entries')}",
            f"{counted(len(m.blocks), 'block')}, {format_size(size)} on disk "
            f"({size / max(m.nnz, 1):.2f} bytes an entry), {m.dtype}, {m.compression}",
        ]
        if m.labels is None:
            lines.append("labels: too many to list (regression)")
        else:
            lines.append(f"labels: {counted_labels(self._labels(m.label_counts), 20)}")
            if m.classes:
                given = list(m.given.items())[:20]
                coded = ", ".join(f"{format_number(code)} is {label}" for code, label in given)
                more = f" and {len(m.classes) - 20} more" if len(m.classes) > 20 else ""
                lines.append(f"in LIBSVM and LIBLINEAR text, label {coded}{more}")
        if m.names:
            named = counted(m.names["names"], "feature has", "features have")
            lines.append(f"the first {named} names")
        if m.weighted:
            w = m.weights
            zeros = counted(w["zeros"], "row has", "rows have")
            lines.append(
                f"weights of rows: {format_number(w['least'])} to {format_number(w['largest'])}, "
                f"{w['total']:.15g} in all" + (f"; {zeros} weight 0" if w["zeros"] else "")
            )
        for batch in self.batches():
            sources = _listed(batch["sources"])
            if m.weighted:
                sources += f" with weights from {_listed(batch['weights'])}"
            lines.append(
                f"batch {batch['name']}: {counted(batch['rows'], 'row')} from {sources}, "
                f"{batch['date']}"
            )
        if self.mirror is not None:
            n_kept = sum((self.blocks_folder / block.name).exists() for block in m.blocks)
            lines.append(f"on {self.name}; {n_kept} of its blocks are kept in {self.folder}")
        if m.removed:
            size = sum(block.bytes for block in m.removed)
            waiting = counted(len(m.removed), "removed block is", "removed blocks are")
            lines.append(
                f"{waiting} still on disk, {format_size(size)}: `blocklinear gc` deletes them"
            )
        occurring = counted(m.n_features, "feature occurs, and is", "features occur, and are")
        hashed = (
            f"{counted(m.hash_bits, 'bit')}: {counted(m.total('hash_collisions'), 'collision')}"
        )
        notes = [
            (m.renumbered, f"{occurring} renumbered in the blocks"),
            (m.hash_bits, f"features hashed to {hashed}"),
            (m.normalize == "l2", "rows are divided by their norm when they are read"),
        ]
        lines += [text for holds, text in notes if holds]
        skipped = "row" if m.of_tables else "line"
        changes = [
            ("sorted_rows", "row was sorted", "rows were sorted"),
            ("merged_entries", "repeated entry was added up", "repeated entries were added up"),
            ("ignored_qids", "query number (qid) was ignored", "query numbers (qid) were ignored"),
            ("skipped", f"{skipped} was skipped", f"{skipped}s were skipped"),
        ]
        lines += [
            counted(m.total(name), one, several) for name, one, several in changes if m.total(name)
        ]
        return "\n".join(map(shown, lines))

    def iter_csr(
        self, rows: int = 100_000
    ) -> Iterator[tuple[Any, NDArray[Any], NDArray[np.float64] | None]]:
        """Yield the rows as SciPy has them, some at a time.

        Rows come block by block, as they lie there: in the order of the input with
        ``order="file"``, else as they were assigned at random, the same at any time. Values are as
        they were given, neither rounded to the precision of the store nor normalised.

        Parameters
        ----------
        rows : int
            How many at a time; the last may be fewer.

        Yields
        ------
        X : scipy.sparse.csr_array of float64, shape (rows, n_features)
            Column j is the feature ``j + index_base`` of the input, or the hash j.
        y : ndarray, shape (rows,)
            Labels as they were given: float64, text, or integers.
        weight : float64[rows] or None
            Of the rows, if they have weights.

        Raises
        ------
        UsageError
            If `rows` is not at least 1.
        DamagedError
            If a block is not what was written.
        StorageError
            If it cannot be read.
        BusyError
            If another process changed the store meanwhile, and deleted a block.
        """
        rows = check_count("rows", rows)
        from blocklinear.store.groups import iter_csr  # late: `info` does without kernels

        features = read_features(self.folder, self.manifest)
        found = iter_csr(self.folder, self.manifest, features, rows)
        return self._unless_past(found)

    def feature_names(self) -> tuple[str, ...] | None:
        """Return the names of the features, the first ones if some have none; None without any.

        Raises
        ------
        DamagedError
            If they are not what was written.
        StorageError
            If they cannot be read.
        """
        return read_names(self.folder, self.manifest)

    def _fault(self, error: DamagedError | StorageError) -> str:
        """Return what is wrong with a file; raise the error if only the way to it is."""
        at_fault = isinstance(error, DamagedError | MissingError)
        if self.mirror is not None and not at_fault:  # each other file would take as long
            raise error
        return str(error)

    def verify(self, listener: Listener = ignore) -> VerifyReport:
        """Read every block once, decode it, and compare it with the manifest.

        Parameters
        ----------
        listener : callable
            Called with a `BlockProgress` event before each block.

        Raises
        ------
        BusyError
            If blocks of this generation of the store were deleted meanwhile.
        StorageError
            If files of a store on a URL cannot be fetched, though they may be there.
        """
        from blocklinear.store.groups import GroupBuffer  # late: `info` does without kernels

        m, report = self.manifest, VerifyReport(blocks=len(self.manifest.blocks))
        labels = np.array(m.labels if m.labels is not None else [])
        try:
            read_features(self.folder, m)
            read_names(self.folder, m)
            m.read_recipe(self.folder)
        except (DamagedError, StorageError) as error:
            report.faults.append(self._fault(error))
        with BlockReader(self.blocks_folder, 1) as reader, ThreadPoolExecutor(1) as pool:
            for position, record in enumerate(m.blocks):
                listener(BlockProgress(position, len(m.blocks)))
                try:
                    BlockFile(self.blocks_folder, record).check_digest()
                    buffer = GroupBuffer(record.rows, record.nnz, m.dtype, m.weighted)
                    group = buffer.load(reader, m, [position], pool)
                    counts = [int(np.count_nonzero(group.labels == label)) for label in labels]
                    if counts != record.label_counts:
                        raise DamagedError(f"{record.name}: its labels are not those counted")
                    if group.weights is not None and not agree(
                        weight_stats_by_label(group.weights, group.labels, labels.tolist()),
                        record.weights,
                    ):
                        raise DamagedError(f"{record.name}: its weights are not those added up")
                except (DamagedError, StorageError) as error:
                    report.faults.append(self._fault(error))
                    continue
                report.rows += record.rows
                report.nnz += record.nnz
                report.bytes += record.bytes
        if report.faults and self._is_past():
            raise self._changed()
        known = {record.name for record in (*m.blocks, *m.removed)} | set(m.moved)
        names = os.listdir(self.blocks_folder) if self.blocks_folder.is_dir() else []
        unused = [path.name for path in unnamed(self.folder, m)]
        report.unused_files = sorted({*names} - known) + unused
        return report

    def _labels(self, counts: list[int]) -> list[dict[str, Any]] | None:
        """Return the labels that have rows, as named, with how many; None if not counted."""
        if self.manifest.labels is None:
            return None
        labels = given_labels(self.manifest.labels, self.named)
        return [{"label": label, "rows": n} for label, n in zip(labels, counts, strict=True) if n]

    def _unless_past(self, found: Iterator[T]) -> Iterator[T]:
        """Yield what is read of this store, unless another process deletes it meanwhile."""
        try:
            yield from found
        except (DamagedError, StorageError):
            if self._is_past():
                raise self._changed() from None
            raise

    def _changed(self) -> BusyError:
        return BusyError(
            f"{self.folder}: another process changed it, and deleted what was read", "do it again"
        )

    def _is_past(self) -> bool:
        """Say whether the store on disk is of another generation by now."""
        with contextlib.suppress(DamagedError, MismatchError, StorageError):
            return Manifest.load(self.folder).generation != self.manifest.generation
        return False


def _weights(manifest: Manifest) -> dict[str, Any] | None:
    """Return what ``info --json`` says of the weights of rows; None if they have none."""
    if not manifest.weighted:
        return None
    return {name: value for name, value in manifest.weights.items() if name != "sums"}


def counted_labels(labels: list[dict[str, Any]] | None, most: int) -> str:
    """Return labels and their rows as people read them, `most` of them at most."""
    if labels is None:
        return "too many to list"
    listed = ", ".join(
        f"{label_text(found['label'])} ({counted(found['rows'], 'row')})" for found in labels[:most]
    )
    return listed + (f" and {len(labels) - most} more" if len(labels) > most else "")


def _listed(files: Sequence[dict[str, Any]], most: int = 20) -> str:
    """Return the paths of files, `most` of them at most: a folder of tables may have thousands."""
    listed = ", ".join(str(file["path"]) for file in files[:most])
    return listed + (f" and {len(files) - most} more" if len(files) > most else "")
