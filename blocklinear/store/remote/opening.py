"""Open a store on a URL: the manifest there decides what of the mirror is still good."""

import contextlib
from pathlib import Path

from blocklinear.errors import BlocklinearError, DamagedError, StorageError
from blocklinear.inputs.objects import MissingError, RemoteObject, read_small
from blocklinear.inputs.urls import joined
from blocklinear.store.features import FOLDER as FEATURES
from blocklinear.store.files import atomic_write
from blocklinear.store.manifest import MAX_BYTES, NAME, RECIPE_NAME, Manifest
from blocklinear.store.remote.mirror import Mirror, full_disk_advice, refuse_secrets


def mirrored(url: str, cache: Path | None = None, limit: int | None = None) -> Path:
    """Return the folder that the store at `url` is read through, which has its manifest now.

    DamagedError is raised if what is there is no store, or its manifest is damaged; MismatchError
    if a newer version wrote it. UsageError and StorageError are raised if nothing is there, the URL
    cannot be read, or the folder not be written to.

    Parameters
    ----------
    cache : Path or None      where such folders are; None is the cache of the user
    limit : int or None       bytes of blocks that may be kept
    """
    url = url.rstrip("/")
    refuse_secrets(url)
    place = joined(url, NAME)
    try:
        text = read_small(place, MAX_BYTES)
    except MissingError as error:
        try:
            RemoteObject(url)
        except MissingError:
            raise  # not even a folder
        except StorageError:
            pass
        raise DamagedError(
            f"{url}: not a store: it has no {NAME}",
            "copy the whole folder of a store there, as `blocklinear split` made it; text on a URL "
            "is split first: `blocklinear split URL STORE`",
        ) from error
    now = _files_of(Manifest.parse(text, place))
    mirror = Mirror.make(url, cache, limit)
    path = mirror.folder / NAME
    if path.exists() and path.read_bytes() == text:
        return mirror.folder
    before: dict[str, str] = {}
    with contextlib.suppress(BlocklinearError):
        before = _files_of(Manifest.load(mirror.folder))
    kept_files = [*(mirror.folder / "blocks").glob("*.blk"), *(mirror.folder / FEATURES).glob("*")]
    for file in (*kept_files, mirror.folder / RECIPE_NAME):
        name = file.relative_to(mirror.folder).as_posix()
        if name not in now or now[name] != before.get(name):
            file.unlink(missing_ok=True)
    with full_disk_advice(), atomic_write(path) as stream:
        stream.write(text)
    return mirror.folder


def _files_of(manifest: Manifest) -> dict[str, str]:
    """Return a digest of each file that a manifest names, by its place in the folder."""
    blocks = (*manifest.blocks, *manifest.removed)
    files = {f"blocks/{block.name}": block.envelope_sha256 for block in blocks}
    files |= {f"{FEATURES}/{file.name}": file.sha256 for file in manifest.features}
    if manifest.names:
        files[f"{FEATURES}/{manifest.names['file']}"] = manifest.names["sha256"]
    if manifest.of_tables:
        files[RECIPE_NAME] = manifest.recipe
    return files
