"""A store next to its source: made when first needed, reused only while the source is the same."""

import os
from pathlib import Path
from typing import Any

from blocklinear.errors import MismatchError, StorageError, UsageError, storage_errors
from blocklinear.events import Listener, Warned, ignore
from blocklinear.inputs.raw import digest_of
from blocklinear.inputs.urls import is_url
from blocklinear.options import SplitOptions
from blocklinear.store.contents import is_store
from blocklinear.store.manifest import Manifest, digest_name
from blocklinear.store.store import BlockStore


def store_of(
    path: str | os.PathLike[str], options: SplitOptions | None = None, listener: Listener = ignore
) -> BlockStore:
    """Open the store at `path`; if LIBSVM text is there, the store ``PATH.blocks`` made from it.

    That store is reused while size, time of change and digest of the text are those it was made
    from. Else it is made anew, but only if it holds what an earlier state of the text was, and
    nothing that would be lost.

    Raises
    ------
    UsageError
        If `path` is ``-``.
    MismatchError
        If that store holds other rows than those of the text, or rows with weights; if it is to be
        made anew, but was made in another way, or holds something that is not part of a store.
    BlocklinearError
        What `BlockStore.open` or `split` raise.
    """
    if path == "-":
        raise UsageError(
            "no store can be kept for standard input", "`blocklinear split - STORE` first"
        )
    if is_url(path):
        return BlockStore.open(path)
    source = Path(path)
    if not source.is_file():
        return BlockStore.open(source)
    from blocklinear.ingest.split import check_replaceable, make_store  # late: stores do without

    target = source.with_name(f"{source.name}.blocks")
    chosen = options or SplitOptions()

    def check(folder: Path) -> None:
        manifest = _of_one_text(folder, source)
        if Path(_source_of(manifest)["path"]).name != source.name:
            raise _other_rows(folder, source)
        if (name := _difference(manifest, chosen)) is not None:
            raise MismatchError(
                f"{folder}: was made with another {name}, and {source.name} has changed since",
                f"split {source.name} again as you did; or remove {folder.name}, to have it made "
                "anew",
            )
        check_replaceable(folder)

    if target.exists():
        if _is_current(_of_one_text(target, source), source):
            return BlockStore.open(target)
        check(target)
        listener(Warned(f"{source}: changed since {target.name} was made: splitting it again"))
    if not os.access(target.parent, os.W_OK):
        raise StorageError(
            f"{target}: the store of {source.name} cannot be made: its folder may not be written "
            "to",
            "make the store elsewhere by `blocklinear split`, and name that",
        )
    return make_store([source], target, chosen, listener, check)


def _of_one_text(store: Path, source: Path) -> Manifest:
    """Return the manifest of a store that holds all rows of one text, and no others."""
    if not is_store(store):
        raise MismatchError(f"{store}: exists and is not a store", "choose another name")
    manifest = BlockStore.open(store).manifest
    if manifest.weighted:
        raise MismatchError(
            f"{store}: its rows have weights, those of {source.name} have none",
            f"name {store.name} to train with weights, or remove it",
        )
    n_sources = sum(len(batch["sources"]) for batch in manifest.batches)
    # as many as numbers were given out: none was removed
    if n_sources != 1 or not _source_of(manifest)["rows"] == manifest.n_rows == manifest.next_row:
        raise _other_rows(store, source)
    return manifest


def _other_rows(store: Path, source: Path) -> MismatchError:
    return MismatchError(
        f"{store}: its rows are not those of {source.name}: it was made from something else, or "
        "batches were added or removed",
        f"name {store.name} to train on what it holds; or remove it, to have it made anew",
    )


def _source_of(manifest: Manifest) -> dict[str, Any]:
    """Return what is known of the one text of a store."""
    source: dict[str, Any]
    (source,) = (source for batch in manifest.batches for source in batch["sources"])
    return source


def _difference(manifest: Manifest, options: SplitOptions) -> str | None:
    """Return an option that a store was not made with, None if there is no such option."""
    for name in ("seed", "order", "dtype", "normalize"):
        if getattr(manifest, name) != getattr(options, name):
            return name
    if manifest.hash_bits != options.text.hash_bits:
        return "number of hash bits"
    known = manifest.hash_bits or options.text.seeks_base
    if not known and manifest.index_base != options.text.smallest_index:
        return "index base"
    return None


def _is_current(manifest: Manifest, source: Path) -> bool:
    """Say whether a text is as it was when it was split."""
    known = _source_of(manifest)
    with storage_errors(source, "read"):
        found = os.stat(source)
    if (found.st_size, found.st_mtime_ns) != (known["size"], known["mtime_ns"]):
        return False
    name = digest_name(known)
    same: bool = digest_of(source, name) == known[name]
    return same
