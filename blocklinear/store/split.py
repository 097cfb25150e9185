"""`split`: stream LIBSVM text once into a new store."""

import os
from collections.abc import Sequence
from pathlib import Path

from blocklinear import __version__
from blocklinear.errors import MismatchError, StorageError, storage_errors
from blocklinear.events import Listener, ignore
from blocklinear.options import SplitOptions
from blocklinear.store import manifest as manifests
from blocklinear.store.files import (
    LOCK_NAME,
    Lock,
    remove_tree,
    replace_directory,
    sync_directory,
)
from blocklinear.store.intake import Paths, expected_bytes, read_batch
from blocklinear.store.manifest import Manifest
from blocklinear.store.store import BlockStore
from blocklinear.store.writer import make_plan

BLOCKS_NAME = "blocks"


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
    MemoryBudgetError
        If training could not hold the weights of the features (see `TextOptions.max_features`), or
        the blocks asked for cannot all be open.
    StorageError
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


def _write(inputs: Paths, staging: Path, options: SplitOptions, listener: Listener) -> None:
    """Read the inputs and commit a store in `staging`."""
    plan = make_plan(options, expected_bytes(inputs, options))
    blocks_folder = staging / BLOCKS_NAME
    batch = read_batch(inputs, blocks_folder, "b1", plan, options, listener)
    sync_directory(blocks_folder)
    Manifest(
        format=1 if options.weights is None else 2,
        generation=1,
        written_by=__version__,
        seed=options.seed,
        order=options.order,
        index_base=batch.index_base,
        hash_bits=options.text.hash_bits,
        n_features=batch.n_features,
        n_rows=batch.n_rows,
        nnz=batch.nnz,
        next_row=batch.next_row,
        next_block=batch.next_block,
        dtype=options.dtype,
        compression=options.compression,
        normalize=options.normalize,
        labels=batch.labels,
        batches=[batch.entry()],
        blocks=batch.blocks,
    ).save(staging)
