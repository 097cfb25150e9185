"""Runs that were broken off: what they reached is deleted only when that is asked for."""

import re
from pathlib import Path

from blocklinear.errors import DamagedError, MismatchError
from blocklinear.events import Listener, Warned
from blocklinear.training.checkpoint import Checkpoint

_PART = re.compile(r"\.part\d+of\d+")


def folders_of(folder: Path) -> list[Path]:
    """Return the folders there are of a run: its own, and those of the parts it was trained in.

    Parameters
    ----------
    folder : Path
        Of the run, ``STORE/runs/NAME``. Links are not followed: they lead out of the store.
    """
    if folder.parent.is_symlink():
        return []
    parts = sorted(folder.parent.glob(f"{folder.name}.part*"))
    mine = [part for part in parts if _PART.fullmatch(part.name.removeprefix(folder.name))]
    return [own for own in (folder, *mine) if own.is_dir() and not own.is_symlink()]


def check_finished(folder: Path, listener: Listener, resuming: str = "--resume") -> None:
    """Refuse to start a run anew where one of its name was broken off.

    Nothing can go on from a damaged checkpoint: it is no obstacle, but warned of.

    Parameters
    ----------
    folder : Path
        Of the run.
    listener : callable
        Called with `Warned`.
    resuming : str
        What goes on with the run, for the message.

    Raises
    ------
    MismatchError
        If a checkpoint is there of a run that has not come to its end, or that a newer version
        saved.
    StorageError
    """
    for own in folders_of(folder):
        try:
            facts = Checkpoint(own).facts
        except DamagedError as error:
            listener(Warned(f"{error.what}: the run starts from the beginning"))
            continue
        if facts is None or facts.get("finished"):
            continue
        what = f"run {folder.name!r} was broken off in outer iteration {facts.get('outer')}"
        goes_on = f"{resuming} to go on with it"
        if facts.get("warm_only"):
            goes_on = "--warm-start to start from its alpha"
        raise MismatchError(
            f"{folder.parents[1]}: {what}",
            f"give {goes_on}, --restart to delete what it reached, or another --run NAME",
        )
