"""A store beside its source: made when first needed, reused only while the source is the same."""

import os
from pathlib import Path
from typing import Any

from blocklinear.errors import BlocklinearError, MismatchError, storage_errors
from blocklinear.events import Listener, Warned, ignore
from blocklinear.options import SplitOptions
from blocklinear.store.manifest import digest_name
from blocklinear.store.split import split
from blocklinear.store.store import BlockStore
from blocklinear.text import digest_of


def store_of(
    path: str | os.PathLike[str], options: SplitOptions | None = None, listener: Listener = ignore
) -> BlockStore:
    """Open the store at `path`; if LIBSVM text is there, the store ``PATH.blocks`` made from it.

    That store is reused while size, time of change and digest of the text are those it was made
    from, and made anew otherwise.

    Raises
    ------
    MismatchError
        If that store was made with weights of rows, which the text does not have.
    BlocklinearError
        What `BlockStore.open` or `split` raise.
    """
    source = Path(path)
    if not source.is_file():
        return BlockStore.open(source)
    target = source.with_name(f"{source.name}.blocks")
    if target.exists():
        if _made_from(target, source):
            return BlockStore.open(target)
        listener(Warned(f"{source}: changed since {target.name} was made: splitting it again"))
    chosen = options or SplitOptions()
    return split([source], target, SplitOptions(**{**vars(chosen), "force": True}), listener)


def _made_from(store: Path, source: Path) -> bool:
    """Say whether `store` holds the rows of `source` and nothing else."""
    try:
        manifest = BlockStore.open(store).manifest
    except BlocklinearError:
        return False
    if manifest.weighted:
        raise MismatchError(
            f"{store}: its rows have weights, those of {source.name} have none",
            f"name {store.name} to train with weights, or remove it",
        )
    sources: list[dict[str, Any]] = [s for batch in manifest.batches for s in batch["sources"]]
    if len(sources) != 1 or sources[0]["rows"] != manifest.n_rows:  # or blocks were removed
        return False
    with storage_errors(source, "read"):
        found = os.stat(source)
    if (found.st_size, found.st_mtime_ns) != (sources[0]["size"], sources[0]["mtime_ns"]):
        return False
    name = digest_name(sources[0])
    same: bool = digest_of(source, name) == sources[0][name]
    return same
