"""Changes to a store: one writer at a time, each change one commit.

Blocks are never changed and their numbers never used again. What a commit no longer names stays on
disk, where those who opened the store before go on reading it, until garbage is collected.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from blocklinear import __version__
from blocklinear.classes import code_text
from blocklinear.errors import BlocklinearError, InputError, StorageError, UsageError
from blocklinear.events import Listener, Warned, ignore
from blocklinear.store.contents import is_of
from blocklinear.store.features import unnamed
from blocklinear.store.files import (
    LOCK_NAME,
    Lock,
    remove_files,
    remove_temporaries,
    sync_directory,
)
from blocklinear.store.manifest import Manifest, format_of
from blocklinear.store.store import BlockStore
from blocklinear.store.weight_stats import without_labels

AnyStore = BlockStore | str | os.PathLike[str]
_BLOCK = re.compile(r"(?:b?0*)([0-9]{1,8})(?:\.blk)?")
_BLOCK_FILE = re.compile(r"b([0-9]{8})\.blk")
MOST_BLOCKS = 100_000_000
COLUMNS_NAMES = ("columns", "columns.new")
"""Where the columns made of a store are, and where they are while they are made."""


@contextlib.contextmanager
def changing(store: AnyStore) -> Iterator[BlockStore]:
    """Keep other writers out of a store whose rows are to change, and hand out what it holds now.

    UsageError is raised if it is on a URL. WrongTypeError, BusyError and DamagedError are raised as
    by `locked`.
    """
    opened = BlockStore.of(store)
    if opened.mirror is not None:
        raise UsageError(
            f"{opened.name}: a store on a URL cannot be changed",
            "change the folder it was copied from, and copy what is new, the manifest last",
        )
    with locked(opened) as own:
        yield own


@contextlib.contextmanager
def locked(store: AnyStore) -> Iterator[BlockStore]:
    """Keep other writers out of a store, and hand out what it holds now.

    WrongTypeError is raised if `store` is neither a store nor a path; BusyError if another process
    writes to it or trains on it; DamagedError if it is no store, or is damaged.
    """
    folder = BlockStore.of(store).folder  # opened before a lock is put where no store is
    with Lock(folder / LOCK_NAME):
        remove_temporaries(folder)
        yield BlockStore.open(folder)


def commit(store: BlockStore, **changes: Any) -> BlockStore:
    """Make the next generation of a store current; what follows from `changes` is counted anew."""
    manifest = replace(
        store.manifest,
        generation=store.manifest.generation + 1,
        written_by=__version__,
        **changes,
    ).counted_anew()
    known = set(manifest.labels or ())
    classes = {code: name for code, name in manifest.classes.items() if float(code) in known}
    manifest = replace(
        manifest,
        format=format_of(
            manifest.weighted,
            manifest.renumbered,
            bool(classes or manifest.names),
            manifest.of_tables,
        ),
        classes=classes,
    )
    manifest.check()
    manifest.save(store.folder)
    if manifest.fingerprint != store.manifest.fingerprint:
        with contextlib.suppress(StorageError):  # they do not count any more anyway
            drop_columns(store.folder)
    return BlockStore.open(store.folder)


def drop_columns(folder: Path) -> int:
    """Delete the columns in the folder of a store, be they half made; return their bytes.

    They are a cache: that they are of other rows is also seen when they are opened.
    """
    return sum(remove_columns(folder / name) for name in COLUMNS_NAMES)


def remove_columns(columns: Path) -> int:
    """Delete a folder of columns, or a link in its place; return the bytes that it had.

    If there is anything else in it, that stays, and so does the folder.
    """
    freed = 0
    if columns.is_dir() and not columns.is_symlink():
        files = [path for path in columns.iterdir() if is_of("columns", path.name)]
        # the manifest first: without it, what is left if this fails is not taken for columns
        freed = remove_files(sorted(files, key=lambda path: path.suffix != ".json"))[1]
    with contextlib.suppress(OSError):
        columns.unlink() if columns.is_symlink() else columns.rmdir()
    return freed


@contextlib.contextmanager
def new_blocks(store: BlockStore) -> Iterator[int]:
    """Hand out the first block number not used; delete the new blocks if anything goes wrong.

    Numbers of files that a killed process left are taken for used.
    """
    first = max(store.manifest.next_block, 1 + max(_numbers(store), default=-1))
    if first > MOST_BLOCKS // 2:
        raise StorageError(f"{store.folder}: its block numbers are used up", "split the data again")
    try:
        yield first
    except BaseException:
        with contextlib.suppress(BlocklinearError):
            # a commit may have happened all the same: what is named stays
            m = Manifest.load(store.folder)
            named = {block.name for block in (*m.blocks, *m.removed)}
            numbers = _numbers(store)
            new = (path for number, path in numbers.items() if number >= first)
            remove_files(path for path in new if path.name not in named)
            remove_files(_unused_features(store.folder, m))
        raise


def _numbers(store: BlockStore) -> dict[int, Path]:
    """Return the block files there are, by number."""
    paths = store.blocks_folder.iterdir()
    return {int(found[1]): p for p in paths if (found := _BLOCK_FILE.fullmatch(p.name))}


def remove(
    store: AnyStore,
    batches: str | Sequence[str] = (),
    blocks: Sequence[str | int] = (),
    listener: Listener = ignore,
    missing_ok: bool = False,
) -> BlockStore:
    """Remove batches, or single blocks, from a store.

    Their files stay until `collect_garbage`: processes that have the store open go on reading them,
    and a warm start reads them to subtract their rows from w (Yu, Eq. 16). The number of features
    does not change.

    Parameters
    ----------
    store : BlockStore or path
    batches : str or sequence of str
        Names of batches.
    blocks : sequence of str or int
        Blocks, by number or file name. A batch without blocks is removed.
    listener : callable
        Called with `Warned` events.
    missing_ok : bool
        Ignore batches and blocks that do not exist.

    Returns
    -------
    BlockStore
        The store without them.

    Raises
    ------
    UsageError
        If a batch or block is not in the store, and `missing_ok` is not set; or none is named.
    InputError
        If no row would remain.
    BusyError
        If another process writes to the store or trains on it.
    """
    batches = [batches] if isinstance(batches, str) else batches
    with changing(store) as old:
        m = old.manifest
        gone = _blocks_of(m, batches, missing_ok) | _blocks_named(m, blocks, missing_ok)
        if not batches and not blocks:
            raise UsageError("nothing is named that could be removed", "name a batch or a block")
        if not gone:
            return old
        left = [block for block in m.blocks if block.name not in gone]
        if not any(block.rows for block in left):
            raise InputError(
                f"{old.folder}: no rows would be left", "delete the folder to be rid of all of it"
            )
        removed = [block for block in m.blocks if block.name in gone]
        new = commit(old, blocks=left, removed=m.removed + removed)
    counted = zip(m.labels or (), new.manifest.label_counts, strict=True)
    present = [label for label, count in counted if count]
    if len(present) == 1 and len(m.labels or ()) > 1:
        one = code_text(present[0], new.named)
        listener(Warned(f"all rows that are left have the one label {one}"))
    return new


def check_batches(manifest: Manifest, names: Sequence[str]) -> None:
    """Raise UsageError if a store has no batch of one of these names."""
    known = [batch["name"] for batch in manifest.batches]
    for name in names:
        if name not in known:
            raise UsageError(
                f"no batch is named {name or repr(name)}", f"there are {', '.join(known)}"
            )


def _blocks_of(manifest: Manifest, batches: Sequence[str], missing_ok: bool) -> set[str]:
    if not missing_ok:
        check_batches(manifest, batches)
    return {block.name for block in manifest.blocks if block.batch in batches}


def _blocks_named(manifest: Manifest, blocks: Sequence[str | int], missing_ok: bool) -> set[str]:
    known, found = {block.name for block in manifest.blocks}, set()
    for block in blocks:
        number = _BLOCK.fullmatch(str(block))
        name = f"b{int(number[1]):08d}.blk" if number else ""
        if name not in known and not (number and missing_ok):
            raise UsageError(
                f"no block of the store is {block}", "`remove STORE --list` shows those there are"
            )
        found.add(name)
    return found & known


def forget(store: BlockStore, followed: set[str]) -> BlockStore:
    """Commit a store without what was removed: its blocks, and labels that have no rows left.

    Parameters
    ----------
    store : BlockStore        locked by the caller
    followed : set of str     blocks that are gone whose rows someone still looks for in others (see
                              `Manifest.moved`)
    """
    m = store.manifest
    names = {block.name for block in m.blocks}
    moved = {old: to for old, to in m.moved.items() if old in followed and to[0] in names}
    blocks, labels = m.blocks, m.labels
    if labels is not None:
        used = [k for k, count in enumerate(m.label_counts) if count]
        labels = [labels[k] for k in used]
        blocks = [
            replace(
                b,
                label_counts=[b.label_counts[k] for k in used],
                weights=without_labels(b.weights, used),
            )
            for b in blocks
        ]
    if (m.removed, m.moved, m.labels) == ([], moved, labels):
        return store
    return commit(store, blocks=blocks, labels=labels, removed=[], moved=moved)


def delete_unused(store: BlockStore) -> tuple[int, int]:
    """Delete the files of a store that none of its rows are in; return how many, and bytes.

    Those of blocks that were removed go too. Nothing is written, and what no store has stays.

    Parameters
    ----------
    store : BlockStore        locked by the caller
    """
    named = {block.name for block in store.manifest.blocks}
    blocks = (path for path in store.blocks_folder.iterdir() if is_of("blocks", path.name))
    unused = [path for path in blocks if path.name not in named]
    unused += _unused_features(store.folder, store.manifest)
    lists = {skipped_name(batch["name"]) for batch in store.manifest.batches}
    unused += [path for path in store.folder.glob("skipped*.txt") if path.name not in lists]
    freed = remove_files(unused)
    sync_directory(store.blocks_folder)
    sync_directory(store.folder)
    return freed


def _unused_features(store: Path, manifest: Manifest) -> list[Path]:
    return [path for path in unnamed(store, manifest) if is_of("features", path.name)]


def skipped_name(batch: str) -> str:
    """Return the name of the file in a store that lists the refused lines of a batch."""
    return "skipped.txt" if batch == "b1" else f"skipped-{batch}.txt"
