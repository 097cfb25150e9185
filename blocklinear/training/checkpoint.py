"""What a run needs to continue after a crash, committed with one rename.

A run's folder holds ``checkpoint.json`` and two generations of array files, ``NAME.0`` and
``NAME.1``. Saving writes and syncs the generation that the last checkpoint does not name, then
replaces ``checkpoint.json``, which names the valid generation, and the length and CRC-32 of each
file, and deletes the other one. A crash at any moment leaves the last checkpoint whole. Short
arrays are in the JSON itself, in hexadecimal.
All that the JSON says of a run are its *facts*. Of these, *course* are the options that must not
change when the run is resumed, and a *state* is what the solver, or `Stopping`, has learned.
"""

import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import compress, pairwise, starmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from blocklinear.errors import DamagedError, MismatchError, storage_errors
from blocklinear.store import shapes
from blocklinear.store.files import (
    atomic_write,
    opened,
    read_regular,
    remove_files,
    remove_temporaries,
    write_whole,
)
from blocklinear.store.shapes import Shape

FORMAT = 13
NAME, SCRATCH = "checkpoint.json", "*.work"
MAX_BYTES = 1 << 28
_PIECE, _SHORT = 1 << 20, 64
_FILE = re.compile(r"[A-Za-z0-9_-]+")
_PART_OF_RUN = re.compile(r"(.+)\.part\d+of(\d+)")
_OF_ROUND = re.compile(r"alpha\.(\d+)\.\d+")

_SHORT_ARRAY = shapes.items(shapes.text)
_LONG_ARRAY = shapes.fields({"bytes": shapes.count, "crc": shapes.count})
_OUTER = shapes.fields({"checksum": shapes.text, "checkpoint": shapes.fields({}, more=True)})
_BODY = shapes.fields(
    {
        "format": shapes.anything, "generation": shapes.integer(0, 1),
        "files": shapes.mapping(shapes.either(_SHORT_ARRAY, _LONG_ARRAY)),
        "facts": shapes.fields({}, more=True),
    }
)  # fmt: skip

ROW_ARRAYS = {"alpha": np.float64, "preference": np.float32, "ranges": np.uint16}
"""Types of the arrays with a line for each row, by the first word of their names."""

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Parts = list[Array] | Iterator[Array]


class Checkpoint:
    """The checkpoint in a run's folder.

    Attributes
    ----------
    folder : Path
    facts : dict or None      those given to the last `save`, None if there is no checkpoint
    checksum : str            of all that it says, as it was read; "" if there was none

    DamagedError is raised if there is one and it is not what was written, MismatchError if a newer
    version wrote it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Any] = {}
        self._generation, self.checksum = 1, ""
        self.facts: dict[str, Any] | None = None
        path = folder / NAME
        with storage_errors(path, "read"):
            try:
                raw = read_regular(path, MAX_BYTES)
            except FileNotFoundError:
                return
        try:
            outer = json.loads(raw)
            _OUTER(outer, "")
            body = outer["checkpoint"]
            if outer["checksum"] != _checksum(body):
                raise self.damaged("its checksum is wrong")
            if body["format"] > FORMAT:
                raise MismatchError(
                    f"{path}: format {body['format']} is newer than {FORMAT}, the last known here",
                    "use a newer blocklinear, give --restart to delete it, or another --run NAME",
                )
            if body["format"] != FORMAT:
                raise self.damaged(f"format {body['format']} of an older blocklinear, not {FORMAT}")
            _BODY(body, "")
            self._generation, self._files = body["generation"], body["files"]
            # they make names of files, which are to be in this folder
            if not all(map(_FILE.fullmatch, self._files)):
                raise self.damaged("it names files that no run has")
            self.facts, self.checksum = body["facts"], outer["checksum"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self.damaged("it is not a checkpoint") from error

    def damaged(self, why: str) -> DamagedError:
        """Return the error that says what is wrong with this checkpoint."""
        return damaged(self.folder / NAME, why)

    def checked(self, shape: Shape) -> dict[str, Any] | None:
        """Return the facts, None if there is no checkpoint; refuse those not of a shape."""
        if self.facts is not None:
            try:
                shape(self.facts, "")
            except ValueError as error:
                raise self.damaged(str(error)) from error
        return self.facts

    def _path(self, name: str, generation: int) -> Path:
        return self.folder / f"{name}.{generation}"

    def save(self, facts: dict[str, Any], arrays: Mapping[str, Array | Parts]) -> None:
        """Replace the checkpoint; `facts` are JSON, and arrays are in C order.

        The one before is intact if StorageError is raised, as this one cannot be written.
        """
        generation, files = 1 - self._generation, {}
        try:
            for name, array in arrays.items():
                parts = [array] if isinstance(array, np.ndarray) else array
                files[name] = self._write(name, generation, parts)
        except BaseException:
            remove_files(self._path(name, generation) for name in files)
            raise
        self._put(generation, files, facts)

    def _put(self, generation: int, files: dict[str, Any], facts: dict[str, Any]) -> None:
        """Replace ``checkpoint.json``, whose files are there; delete what it does not need."""
        body = {"format": FORMAT, "generation": generation, "files": files, "facts": facts}
        with atomic_write(self.folder / NAME) as stream:
            stream.write(json.dumps({"checksum": _checksum(body), "checkpoint": body}).encode())
        self._generation, self._files, self.facts = generation, files, facts
        self.tidy(scratch=False)

    def finish(self) -> None:
        """Note in the checkpoint, if there is one, that the run has ended and its models are saved.

        Errors are those of `save`.
        """
        if self.facts is not None:
            self._put(self._generation, self._files, self.facts | {"finished": True})

    def _write(self, name: str, generation: int, parts: Parts) -> Any:
        """Write an array, and return what the checkpoint is to say of it."""
        if isinstance(parts, list) and sum(part.size for part in parts) <= _SHORT:
            return [float(x).hex() for part in parts for x in part.flat]
        written = {"bytes": 0, "crc": 0}

        def pieces() -> Iterator[memoryview]:
            for part in parts:
                raw = part.reshape(-1).view(np.uint8).data
                for piece in (raw[at : at + _PIECE] for at in range(0, len(raw), _PIECE)):
                    written["bytes"] += len(piece)
                    written["crc"] = zlib.crc32(piece, written["crc"])
                    yield piece

        write_whole(self._path(name, generation), pieces())
        return written

    def load(self, arrays: Arrays) -> None:
        """Fill arrays with what the checkpoint holds under their names; errors are as for `mapped`.

        DamagedError is also raised if one has another length.
        """
        for name, array in arrays.items():
            found = self.mapped(name, array.dtype)
            if found.size != array.size:
                raise self.damaged(f"its {name} does not have {array.size} numbers")
            array[...] = found.reshape(array.shape)

    @property
    def names(self) -> Collection[str]:
        """The arrays it holds."""
        return self._files.keys()

    def keep_rows(
        self, blocks: Collection[str], alpha: Callable[[slice], Array] | None = None
    ) -> None:
        """Keep only `ROW_ARRAYS`, and of these the rows of some of ``facts["blocks"]``.

        Another run may start from the alpha; ``facts["warm_only"]`` says that this one cannot be
        resumed. If the checkpoint has no alpha, `alpha` returns that of the rows of a block. Errors
        are those of `mapped` and `save`.
        """
        facts = (self.facts or {}) | {"warm_only": True}
        names, sizes = zip(*facts["blocks"], strict=True)
        n_rows, stay = sum(sizes), [name in blocks for name in names]
        rows = list(compress(starmap(slice, pairwise(np.cumsum([0, *sizes]).tolist())), stay))
        lines: dict[str, Parts] = {}
        for name in self._files:
            if name.partition("-")[0] in ROW_ARRAYS:
                array = self.mapped(name)
                if n_rows == 0 or array.size % n_rows:
                    raise self.damaged(f"its {name} does not have a line for each of {n_rows} rows")
                lines[name] = [array.reshape(n_rows, -1)[block] for block in rows]
        if alpha is not None:
            lines["alpha"] = map(alpha, rows)
        elif lines.keys() != self._files.keys():
            # make room for them, on a disk that may be full
            self._put(self._generation, {name: self._files[name] for name in lines}, facts)
        self.save(facts | {"blocks": list(compress(facts["blocks"], stay))}, lines)

    def mapped(self, name: str, dtype: np.dtype[Any] | None = None) -> Array:
        """Return an array of the checkpoint, flat, mapped from its file if it has one.

        The default type is that in `ROW_ARRAYS`, or float64. DamagedError is raised if a file is
        missing, of another length, or its checksum is wrong.
        """
        if dtype is None:
            dtype = np.dtype(ROW_ARRAYS.get(name.partition("-")[0], np.float64))
        described = self._files.get(name)
        if described is None:
            raise self.damaged(f"it has no {name}")
        if isinstance(described, list):
            try:
                return np.array([float.fromhex(x) for x in described], dtype)
            except (ValueError, OverflowError) as error:
                raise self.damaged(f"its {name} is not made of numbers") from error
        path, n_bytes = self._path(name, self._generation), described["bytes"]
        if n_bytes % dtype.itemsize:
            raise self.damaged(f"its {name} is not of {dtype}")
        missing = damaged(path, f"is missing or not a regular file of {n_bytes} bytes")
        with storage_errors(path, "read"):
            try:
                stream = opened(path)
            except (FileNotFoundError, DamagedError):
                raise missing from None
            with stream:
                if os.fstat(stream.fileno()).st_size != n_bytes:
                    raise missing
                crc = 0  # of what is read: an error where the map is read would end the process
                while piece := stream.read(_PIECE):
                    crc = zlib.crc32(piece, crc)
                if crc != described["crc"]:
                    raise damaged(path, "its checksum is wrong")
                return np.memmap(stream, dtype, "r") if n_bytes else np.zeros(0, dtype)

    def tidy(self, scratch: bool = True) -> tuple[int, int]:
        """Delete every file of the run that this checkpoint does not need; count them, and bytes.

        With `scratch` also those that a run has only while it works.
        """
        rounds = rounds_of(self.facts or {})
        needed = {self._path(name, self._generation) for name in self._files}
        needed |= {path for path, k in files_of_rounds(self.folder).items() if k in rounds}
        remove_temporaries(self.folder)
        return remove_files(sorted(_files(self.folder, scratch) - needed))


def discard(folder: Path) -> tuple[int, int]:
    """Delete the checkpoint in a run's folder, whatever its state, then its array files.

    Return how many files there were, and their bytes.
    """
    with storage_errors(folder, "clean"):
        return remove_files([folder / NAME, *sorted(_files(folder))])


def folders_of(folder: Path) -> list[Path]:
    """Return the folders there are of a run: its own, and those of the parts it was trained in.

    Links are not followed: they lead out of the store.
    """
    if folder.parent.is_symlink():
        return []
    parts = sorted(folder.parent.glob(f"{folder.name}.part*"))
    mine = [part for part in parts if _run_and_parts(part)[0] == folder]
    return [part for part in (folder, *mine) if part.is_dir() and not part.is_symlink()]


def folder_of_part(folder: Path, k: int, n_parts: int) -> Path:
    """Return the folder of part k, counted from 1, of the run in a folder."""
    return folder.with_name(f"{folder.name}.part{k}of{n_parts}")


def _run_and_parts(folder: Path) -> tuple[Path, int]:
    """Return the folder of the run that a folder is of, and in how many parts it was trained."""
    part = _PART_OF_RUN.fullmatch(folder.name)
    return (folder.with_name(part[1]), int(part[2])) if part else (folder, 1)


def parts_of(folder: Path) -> int | None:
    """Return in how many parts the run in a folder was trained; None if there is no checkpoint.

    A warm start may have other parts than the run before, whose checkpoints stay until it ends.
    Then the unfinished one counts; of several, the one that was saved last.
    """
    found: dict[int, tuple[bool, int]] = {}
    for part in folders_of(folder):
        try:
            facts = Checkpoint(part).facts
        except (DamagedError, MismatchError):  # which going on with it reports
            facts = {}
        if facts is not None:
            n = _run_and_parts(part)[1]
            saved = not facts.get("finished", False), (part / NAME).stat().st_mtime_ns
            found[n] = max(saved, found.get(n, saved))
    return max(found, key=lambda n: found[n], default=None)


def folders_before(folder: Path) -> list[Path]:
    """Return the folders with checkpoints of the same run, trained in another number of parts."""
    run, n_parts = _run_and_parts(folder)
    others = (part for part in folders_of(run) if _run_and_parts(part)[1] != n_parts)
    return [part for part in others if (part / NAME).exists()]


def rounds_of(facts: Mapping[str, Any]) -> set[int]:
    """Return the rounds whose files of alpha a run on a cluster needs; none of any other run."""
    state = facts.get("method", {})
    if "parts" not in state or facts.get("warm_only"):
        return set()
    earlier = [of_round for of_round, *_ in state.get("kept", [])]
    return {state.get("first", 0) + of_round for of_round in (*earlier, facts["outer"])}


def files_of_rounds(folder: Path) -> dict[Path, int]:
    """Return the files of `RoundAlpha` in the folder of a run, and the number of each."""
    matches = ((path, _OF_ROUND.fullmatch(path.name)) for path in folder.glob("alpha.*.*"))
    return {path: int(found[1]) for path, found in matches if found}


def damaged(path: Path, why: str) -> DamagedError:
    """Return the error that says what is wrong with a file of a run."""
    return DamagedError(f"{path}: {why}", "train with --restart, which starts the run anew")


def _files(folder: Path, scratch: bool = True) -> set[Path]:
    """Return the files of arrays: of checkpoints of both generations, of rounds, and scratch."""
    kinds = ("*.0", "*.1", SCRATCH) if scratch else ("*.0", "*.1")
    found = {path for kind in kinds for path in folder.glob(kind)}
    return found | files_of_rounds(folder).keys()


def _checksum(body: Any) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
