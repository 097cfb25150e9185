"""`split`: stream LIBSVM text once into a new store."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Self

from blocklinear import __version__
from blocklinear.errors import (
    InputError,
    InputFormatError,
    MismatchError,
    StorageError,
    storage_errors,
)
from blocklinear.events import Listener, SplitProgress, Warned, ignore
from blocklinear.memory import WEIGHT_VECTORS, format_size
from blocklinear.options import SplitOptions
from blocklinear.store import manifest as manifests
from blocklinear.store.files import Lock, remove_tree, replace_directory, sync_file
from blocklinear.store.manifest import Manifest
from blocklinear.store.store import BlockStore
from blocklinear.store.writer import BatchWriter, decoded_bytes, make_plan
from blocklinear.text import RowReader, sample

LOCK_NAME, BLOCKS_NAME, SKIPPED_NAME = "lock", "blocks", "skipped.txt"


def split(
    inputs: Sequence[str | os.PathLike[str]],
    store: str | os.PathLike[str],
    options: SplitOptions | None = None,
    listener: Listener = ignore,
) -> BlockStore:
    """Split LIBSVM text into a store of randomly assigned, compressed blocks.

    The text is read once. Until the store is whole it lies in a hidden folder beside `store`, which
    is removed when anything goes wrong.

    Parameters
    ----------
    inputs : sequence of paths
        Files in order, plain or gz, bz2, xz, zst; ``-`` is standard input.
    store : path
        Folder to make.
    options : SplitOptions
    listener : callable
        Told `SplitProgress` and `Warned`.

    Raises
    ------
    InputError
        If the text is malformed or holds no rows.
    MismatchError
        If `store` exists and `options.force` is not set, or it is something else than a store.
    BusyError
        If another process is splitting to `store`, or writing to it.
    MemoryBudgetError, StorageError
    """
    options = options or SplitOptions()
    target = Path(store).absolute()
    _check_target(target, options.force)
    staging = target.with_name(f".{target.name}.splitting")
    with storage_errors(target, "create"):
        staging.mkdir(exist_ok=True)
    with Lock(staging / LOCK_NAME):
        try:
            _clear(staging)
            _write(list(inputs), staging, options, listener)
            _check_target(target, options.force)  # another split may have made it meanwhile
            if target.exists():
                with Lock(target / LOCK_NAME):
                    replace_directory(staging, target)
            else:
                replace_directory(staging, target)
        except BaseException:
            remove_tree(staging)
            raise
    return BlockStore.open(target)


def _check_target(target: Path, force: bool) -> None:
    if not target.parent.is_dir():
        raise StorageError(f"{target.parent}: no such folder", "make it first")
    if not target.exists():
        return
    if not force:
        raise MismatchError(
            f"{target}: exists", "choose another name, or give --force to replace it"
        )
    if not (target / manifests.NAME).is_file():
        raise MismatchError(f"{target}: exists and is not a store", "choose another name")


def _clear(staging: Path) -> None:
    """Remove what a killed split left."""
    for leftover in staging.iterdir():
        if leftover.name != LOCK_NAME:
            remove_tree(leftover)
            leftover.unlink(missing_ok=True)
    with storage_errors(staging, "create"):
        (staging / BLOCKS_NAME).mkdir()


def _write(
    inputs: list[str | os.PathLike[str]], staging: Path, options: SplitOptions, listener: Listener
) -> None:
    """Read the inputs and commit a store in `staging`."""
    plan = make_plan(options, _expected_bytes(inputs, options))
    skipped = _SkippedLines(staging / SKIPPED_NAME)
    reader = RowReader(inputs, options.text, skipped.add)
    with (
        skipped,
        ThreadPoolExecutor(options.text.threads, "encode") as pool,
        BatchWriter(staging / BLOCKS_NAME, "b1", plan, options, pool) as writer,
    ):
        for rows in reader:
            writer.append(rows)
            listener(
                SplitProgress(reader.bytes_read, reader.bytes_total, writer.n_rows, writer.nnz)
            )
        blocks, labels = writer.finish()
    if writer.n_rows == 0:
        names = ", ".join(os.fspath(path) for path in inputs)
        raise InputError(
            f"{names}: no rows: nothing but blank lines or comments", "check the input"
        )
    n_features = max(writer.max_index - reader.index_base + 1, 0)
    _warn(reader, labels, skipped, listener)
    _warn_of_features(n_features, options, listener)
    batch: dict[str, Any] = {"name": "b1", "rows": writer.n_rows, "sources": reader.provenance}
    Manifest(
        format=manifests.FORMAT,
        generation=1,
        written_by=__version__,
        seed=options.seed,
        order=options.order,
        index_base=reader.index_base,
        hash_bits=options.text.hash_bits,
        n_features=n_features,
        n_rows=writer.n_rows,
        nnz=writer.nnz,
        next_row=writer.next_row,
        next_block=writer.next_block,
        dtype=options.dtype,
        compression=options.compression,
        normalize=options.normalize,
        labels=labels,
        batches=[batch],
        blocks=blocks,
    ).save(staging)


def _expected_bytes(inputs: list[str | os.PathLike[str]], options: SplitOptions) -> float | None:
    """Return the decoded size of all inputs, told from the head of each; None for streams."""
    total = 0.0
    for path in inputs:
        if path == "-" or not os.path.isfile(path):
            return None
        head = sample(path, options.text)
        share = head.raw_bytes / max(os.path.getsize(path), 1)
        total += decoded_bytes(head.rows.n_rows, head.rows.nnz) / max(min(share, 1.0), 1e-12)
    return total


class _SkippedLines:
    """The refused lines, listed in a file as they come; there is none if none come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: IO[bytes] | None = None
        self.first = ""

    def add(self, error: InputFormatError) -> None:
        """List a line: path, line, column and problem."""
        with storage_errors(self._path, "write"):
            if self._stream is None:
                self._stream = open(self._path, "xb")  # noqa: SIM115
                self.first = error.what
            self._stream.write(os.fsencode(error.what.replace("\n", "\\n")) + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            with storage_errors(self._path, "write"):
                self._stream.close()
            sync_file(self._path)


def _warn_of_features(n_features: int, options: SplitOptions, listener: Listener) -> None:
    """Say so if no training within this budget could hold its weights."""
    needed, budget = 8 * WEIGHT_VECTORS * n_features, options.text.memory_bytes
    if needed > budget:
        listener(
            Warned(
                f"{n_features} features: the {WEIGHT_VECTORS} weight vectors of training take "
                f"{needed} bytes ({format_size(needed)}), more than the budget of "
                f"{format_size(budget)}: split with --hash-bits, or train with a larger --memory"
            )
        )


def _warn(
    reader: RowReader, labels: list[float] | None, skipped: _SkippedLines, listener: Listener
) -> None:
    for source in reader.provenance:
        if not source["final_newline"]:
            listener(
                Warned(f"{source['path']}: no newline at the end: the last line may be cut short")
            )
    if labels is not None and len(labels) == 1:
        listener(Warned(f"all rows have the one label {labels[0]:g}"))
    if reader.skipped:
        listener(
            Warned(
                f"{reader.skipped} lines were skipped; the first: {skipped.first}; "
                f"all are listed in {SKIPPED_NAME} in the store"
            )
        )
