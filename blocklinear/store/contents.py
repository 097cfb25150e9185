"""What the folder of a store may hold: a folder with anything else in it is never deleted."""

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from blocklinear.errors import storage_errors
from blocklinear.store import manifest
from blocklinear.store.files import LOCK_NAME, TEMPORARY_PREFIX

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_TEMPORARY = rf"{re.escape(TEMPORARY_PREFIX)}[0-9a-f-]+"


@dataclass(frozen=True)
class _Level:
    """Which regular files there are in a folder, and which folders with what in them."""

    files: str
    folders: "dict[str, _Level]" = field(default_factory=dict)


_RUN = _Level(rf"checkpoint\.json|{_NAME}\.(0|1|work)|alpha\.\d+\.\d+|{_TEMPORARY}")
_SHUFFLE = _Level(
    rf"r[0-9]{{8}}\.(rows|entries|features|numbers)|probe|{_TEMPORARY}",
    {r"block-[0-9a-f]+": _Level(r"b[0-9]{8}\.blk")},
)
_COLUMNS = _Level(r"columns\.json|norms\.f64|c[0-9]{8}\.blk|bucket[0-9]{6}\.tmp")
_STORE = _Level(
    rf"{re.escape(manifest.NAME)}|{re.escape(manifest.RECIPE_NAME)}|{LOCK_NAME}|skipped(-{_NAME})?\.txt|{_TEMPORARY}",
    {
        "blocks": _Level(rf"b[0-9]{{8}}\.blk|{_TEMPORARY}"),
        "features": _Level(rf"f[0-9]{{8}}\.map|n[0-9]{{8}}\.zst|{_TEMPORARY}"),
        "columns": _COLUMNS,
        r"columns\.new": _COLUMNS,
        r"shuffle(\.gone)?": _SHUFFLE,
        "runs": _Level(_TEMPORARY, {_NAME: _RUN}),
    },
)


def foreign(folder: Path) -> str | None:
    """Return the path in a folder of something that no store has, None if there is nothing.

    Whatever a killed command may have left of a store is of a store.

    Raises StorageError.
    """
    with storage_errors(folder, "read"):
        return _foreign(folder, _STORE)


def is_of(folder: str, name: str) -> bool:
    """Say whether a file in a folder of a store, as ``blocks``, can have that name."""
    return re.fullmatch(_STORE.folders[folder].files, name) is not None


def _foreign(folder: Path, level: _Level) -> str | None:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda found: found.name):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISREG(mode) and re.fullmatch(level.files, entry.name):
                continue
            inner = [sub for name, sub in level.folders.items() if re.fullmatch(name, entry.name)]
            if not stat.S_ISDIR(mode) or not inner:
                return entry.name
            if (found := _foreign(Path(entry.path), inner[0])) is not None:
                return f"{entry.name}/{found}"
    return None


def is_store(folder: Path) -> bool:
    """Say whether a folder is a store, be it damaged: it has a manifest, and a folder of blocks."""
    modes = []
    for name in (manifest.NAME, "blocks"):
        try:
            modes.append(os.lstat(folder / name).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
    return stat.S_ISREG(modes[0]) and stat.S_ISDIR(modes[1])


def store_around(path: Path) -> Path | None:
    """Return the store that a file is in, or would be in; None if it is in none.

    Parameters
    ----------
    path : Path               absolute, without symbolic links
    """
    return next((folder for folder in path.parents if is_store(folder)), None)
