"""`gc`: what was removed from a store is deleted, from blocks and runs alike."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blocklinear.columns.manifest import ColumnManifest
from blocklinear.errors import DamagedError, MismatchError
from blocklinear.events import Listener, Warned, ignore
from blocklinear.numerals import counted
from blocklinear.store.changes import AnyStore, changing, delete_unused, drop_columns, forget
from blocklinear.store.files import remove_if_empty
from blocklinear.store.manifest import Manifest
from blocklinear.training.checkpoint import Checkpoint, discard, rounds_of
from blocklinear.training.checkpoint_schema import check_blocks, check_facts
from blocklinear.training.rounds.alpha import AlphaLeft

Deleted = list[tuple[int, int]]
"""How many files were deleted, and their bytes, one time after another."""


@dataclass(frozen=True)
class Collected:
    """What was deleted: files of blocks that are no more and of runs, and runs shortened."""

    files: int
    bytes: int
    runs: int

    def summary(self) -> str:
        """Return it as a sentence."""
        cut = f"; {counted(self.runs, 'run')} lost the rows that were removed" if self.runs else ""
        return f"{counted(self.files, 'file')}, {counted(self.bytes, 'byte')} deleted{cut}"


def collect_garbage(store: AnyStore, listener: Listener = ignore) -> Collected:
    """Delete what no longer belongs to a store.

    That is: blocks that were removed or merged, columns made of other rows, what killed commands
    left, and the alpha of removed rows in runs, with all that was computed from it. A run that
    loses rows cannot be resumed any more, but a warm start from it works. If the call is
    interrupted, repeat it.

    Parameters
    ----------
    store : BlockStore or path
    listener : callable
        Called with `Warned` events.

    Raises
    ------
    BusyError
        If another process writes to the store or trains on it.
    DamagedError
        If it is no store, or its manifest is damaged.
    StorageError
        If something cannot be deleted.
    """
    with changing(store) as old:
        # The disk may be full: whatever can be deleted goes before anything is written. That blocks
        # which the manifest calls removed are missing does no harm, should this end here.
        deleted = [delete_unused(old)]
        columns = None
        with contextlib.suppress(DamagedError):
            columns = ColumnManifest.load(old.folder, old.manifest)
        if columns is None:  # or they are of other rows
            deleted.append((0, drop_columns(old.folder)))
        runs, followed, n_shortened = list(_runs(old.folder)), set[str](), 0
        for folder in runs:
            with _readable(folder, old.manifest, followed, listener, deleted):
                deleted.append(Checkpoint(folder).tidy())
        for folder in runs:
            with _readable(folder, old.manifest, followed, listener, deleted):
                blocks, shortened = _shorten(folder, old.manifest, deleted)
                followed |= blocks
                n_shortened += shortened
        # only now: should this end before, the next call shortens the runs
        forget(old, followed)
    files, sizes = zip(*deleted, strict=True)
    return Collected(sum(files), sum(sizes), n_shortened)


def _runs(folder: Path) -> Iterator[Path]:
    runs = folder / "runs"
    if runs.is_dir() and not runs.is_symlink():
        folders = (path for path in runs.iterdir() if path.is_dir() and not path.is_symlink())
        yield from sorted(folders)


@contextlib.contextmanager
def _readable(
    folder: Path, manifest: Manifest, followed: set[str], listener: Listener, deleted: Deleted
) -> Iterator[None]:
    """Delete a run if its checkpoint cannot be read: it may hold rows that are to go.

    That of a newer version stays where none are; all blocks count as `followed` then.
    """
    try:
        yield
    except MismatchError as error:
        if not manifest.removed:
            followed.update(manifest.moved)
            return
        listener(Warned(f"{error.what}, and rows of it may be to go: the run is deleted"))
        _delete(folder, deleted)
    except (DamagedError, KeyError, TypeError, ValueError):
        listener(Warned(f"{folder}: its checkpoint is damaged: it is deleted"))
        _delete(folder, deleted)


def _delete(run: Path, deleted: Deleted) -> None:
    deleted.append(discard(run))
    remove_if_empty(run, run.parent)


def _shorten(folder: Path, manifest: Manifest, deleted: Deleted) -> tuple[set[str], bool]:
    """Keep of a run the rows there are; return its blocks, and whether it lost any."""
    checkpoint = Checkpoint(folder)
    known = checkpoint.facts or {"blocks": []}
    check_blocks(known, "")
    named = [name for name, _ in known["blocks"]]
    there = {block.name for block in manifest.blocks}
    there |= {name for name, to in manifest.moved.items() if to[0] in there}
    if there.issuperset(named):
        return set(named), False
    if there.isdisjoint(named):
        _delete(folder, deleted)
        return set(), True
    alpha = None
    if rounds_of(known):
        check_facts(known, "")
        alpha = AlphaLeft(checkpoint).of_rows
    checkpoint.keep_rows(there, alpha)
    return set(named) & there, True
