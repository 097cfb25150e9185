"""`split`: stream LIBSVM text once into a new store."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from blocklinear import __version__
from blocklinear.arguments import Path as AnyPath
from blocklinear.arguments import check_name, check_options, path_list
from blocklinear.classes import Classes, to_json
from blocklinear.errors import MismatchError, StorageError, UsageError, storage_errors
from blocklinear.events import Listener, ignore
from blocklinear.ingest.ingest import Batch, Ingestion, Paths, read_batch, total_bytes
from blocklinear.ingest.numbering import Numbering
from blocklinear.ingest.writer import Plan, make_plan
from blocklinear.inputs.urls import is_url, shown_name
from blocklinear.options import SplitOptions
from blocklinear.store.contents import foreign, is_store
from blocklinear.store.features import write_names
from blocklinear.store.files import (
    LOCK_NAME,
    Lock,
    aside_name,
    atomic_write,
    make_folder,
    place_folder,
    recover_name,
    remove_tree,
    sync_directory,
)
from blocklinear.store.manifest import RECIPE_NAME, Manifest, format_of
from blocklinear.store.store import BlockStore

BLOCKS_NAME = "blocks"


def split(
    inputs: AnyPath | Sequence[AnyPath],
    store: str | os.PathLike[str],
    options: SplitOptions | None = None,
    listener: Listener = ignore,
) -> BlockStore:
    """Split LIBSVM text into a store of randomly assigned, compressed blocks.

    See `blocklinear.split` for what is not said here, and for the errors. The store is written to a
    hidden folder in the same place and renamed when it is complete; if anything fails, that folder
    is deleted.
    """
    options = options or SplitOptions()
    check_options(options, SplitOptions)
    return make_store(
        path_list(inputs), store, options, listener, lambda target: check_new(target, options)
    )


def make_store(
    inputs: Paths,
    store: str | os.PathLike[str],
    options: SplitOptions,
    listener: Listener,
    check: Callable[[Path], None],
) -> BlockStore:
    """Split text into a store, as `split` does.

    Errors are those of `split`.

    Parameters
    ----------
    inputs, store, options, listener    as for `split`, but for ``options.force``
    check : callable          raises an error if the store, whose folder is there, may not be
                              replaced. Called before work begins, and again when the new store is
                              whole and the one there is locked
    """
    place = Path(store).absolute()  # it may be the current folder, which is another one then
    with new_store(store, check) as staging:
        plan = make_plan(options, total_bytes(inputs, options))
        batch = read_batch(list(inputs), ingestion_of(staging, options, plan, listener))
        save(staging, options, batch)
    return BlockStore.open(place)


@contextlib.contextmanager
def new_store(store: str | os.PathLike[str], check: Callable[[Path], None]) -> Iterator[Path]:
    """Hand out a folder to write a store in, which gets its name when that is done.

    If anything goes wrong, the folder is removed, and what has the name stays as it is.

    Errors are those of `split`.

    Parameters
    ----------
    store : path              name of the store
    check : callable          as for `make_store`
    """
    target = _resolved(store)
    if not target.parent.is_dir():
        what = "is not a folder" if os.path.lexists(target.parent) else "no such folder"
        raise StorageError(f"{target.parent}: {what}", "make it first")
    with _locked(target, check):
        pass  # now, not after hours
    staging = target.with_name(f".{target.name}.splitting")
    _refuse_foreign(staging)  # before a lock is put there
    _refuse_foreign(aside_name(target))
    make_folder(staging, target.parent)
    with Lock(staging / LOCK_NAME):
        _refuse_foreign(staging)
        try:
            if recover_name(target) is not None:
                remove_tree(aside_name(target))
            _clear(staging)
            with _locked(target, check):
                pass  # it may have its name back
            yield staging
            with _locked(target, check):
                place_folder(staging, target)
                remove_tree(staging)  # now what was replaced, still locked
        except BaseException:
            remove_tree(staging)
            raise


@contextlib.contextmanager
def _locked(target: Path, check: Callable[[Path], None]) -> Iterator[None]:
    """Lock a store that may be replaced; do nothing if there is none."""
    if not target.exists():
        yield
        return
    check(target)  # before a lock is put there
    with Lock(target / LOCK_NAME):
        check(target)
        yield


def _resolved(store: str | os.PathLike[str]) -> Path:
    """Return the folder to make: where a link is given, what it leads to."""
    check_name(store)
    if is_url(store):
        raise UsageError(
            f"{shown_name(store)}: a store is made in a folder of this machine",
            "make it there, and copy the folder",
        )
    path = Path(store).absolute()
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise MismatchError(f"{path}: is a link that leads nowhere", "choose another name")
    return target


def check_new(target: Path, options: SplitOptions) -> None:
    """Refuse a name that is taken, unless what has it may be replaced."""
    if is_store(target) and not options.force:
        raise MismatchError(
            f"{target}: exists", "choose another name, or give --force to replace it"
        )
    check_replaceable(target)


def check_replaceable(target: Path) -> None:
    """Raise MismatchError if a folder is no store, or holds what would be lost with it."""
    if not is_store(target):
        raise MismatchError(f"{target}: exists and is not a store", "choose another name")
    if target.is_mount():
        raise MismatchError(
            f"{target}: is a mount point, which cannot be replaced", "name a folder in it"
        )
    if (name := foreign(target)) is not None:
        raise MismatchError(
            f"{target}: {name} in it is not part of a store, and would be lost",
            "move it elsewhere, or choose another name",
        )


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder that is in the way, unless a killed split left it."""
    if not os.path.lexists(folder):
        return
    what: str | None = "it is no folder"
    if folder.is_dir() and not folder.is_symlink():
        name = foreign(folder)
        what = name and f"{name} in it is not part of a store"
    if what:
        raise MismatchError(
            f"{folder}: its name is needed, but {what}", "move it elsewhere, or delete it"
        )


def _clear(staging: Path) -> None:
    """Remove what a killed split left."""
    for name in os.listdir(staging):
        if name != LOCK_NAME:
            remove_tree(staging / name)
            (staging / name).unlink(missing_ok=True)
    with storage_errors(staging, "create"):
        (staging / BLOCKS_NAME).mkdir()


def ingestion_of(staging: Path, options: SplitOptions, plan: Plan, listener: Listener) -> Ingestion:
    """Return what takes in the rows of a new store."""
    text, numbering = options.text, None
    if options.renumber:
        numbering = Numbering(text, None, plan.held_entries)
    return Ingestion(staging / BLOCKS_NAME, plan, options, listener, numbering=numbering)


def save(
    staging: Path,
    options: SplitOptions,
    batch: Batch,
    classes: Classes | None = None,
    names: Sequence[str] = (),
    recipe: bytes = b"",
) -> None:
    """Commit a store of one batch.

    Parameters
    ----------
    classes : mapping of float to str or int      labels as they were given, where these are others
                              than those of blocks
    names : sequence of str   of the features of the input, the first ones; empty if they have none
    recipe : bytes            how tables become rows; empty if they do not
    """
    sync_directory(staging / BLOCKS_NAME)
    named = write_names(staging, names) if names else {}
    if recipe:
        with atomic_write(staging / RECIPE_NAME) as stream:
            stream.write(recipe)
    n_features = sum(file.features for file in batch.features)
    Manifest(
        format=format_of(options.weighted, options.renumber, bool(classes or names), bool(recipe)),
        generation=1,
        written_by=__version__,
        seed=options.seed,
        order=options.order,
        index_base=batch.index_base,
        hash_bits=options.text.hash_bits,
        n_features=n_features if options.renumber else batch.dimension,
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
        dimension=batch.dimension,
        features=batch.features,
        classes=to_json(classes or {}),
        names=named,
        recipe=hashlib.sha256(recipe).hexdigest() if recipe else "",
    ).save(staging)
