"""Runs that were broken off: what they have reached is not deleted without being asked for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blocklinear.errors import DamagedError, MismatchError
from blocklinear.events import Listener, Warned
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest
from blocklinear.training.checkpoint import Checkpoint, folders_of
from blocklinear.training.permutations import sampled


def check_finished(
    folder: Path, manifest: Manifest | None, listener: Listener, by_train: bool = False
) -> None:
    """Refuse to start a run anew if one of its name is unfinished, and say what goes on with it.

    A damaged checkpoint is only warned of, as nothing can go on from it. MismatchError is raised if
    there is one of an unfinished run, or of a newer version.

    Parameters
    ----------
    manifest : Manifest or None         of the whole store: a run on other blocks cannot be resumed;
                              None if its blocks do not matter
    by_train : bool           whether it is `train` that goes on with it, and not this command
    """
    for part in folders_of(folder):
        try:
            facts = Checkpoint(part).facts
        except DamagedError as error:
            listener(Warned(f"{error.what}: the run starts from the beginning"))
            continue
        if facts is None or facts.get("finished"):
            continue
        what = f"run {folder.name!r} was broken off in outer iteration {facts.get('outer')}"
        option, to_do = "--resume", "go on with it"
        if changed := manifest is not None and not _is_of_blocks(facts, manifest):
            what += ", and the blocks of the store have changed since"
        if changed or facts.get("warm_only"):
            option, to_do = "--warm-start", "start from its alpha"
        goes_on = f"`train {option}`" if by_train else option
        raise MismatchError(
            f"{folder.parents[1]}: {what}",
            f"give {goes_on} to {to_do}, --restart to delete what it reached, or another --run "
            "NAME",
        )


def _is_of_blocks(facts: Mapping[str, Any], manifest: Manifest) -> bool:
    """Say whether the blocks of a store are those that a run was trained on."""
    course = facts.get("course", {})
    known = {name: course[name] for name in ("sample_blocks", "seed") if name in course}
    return bool(facts.get("store") == sampled(manifest, TrainOptions(**known)).fingerprint)
