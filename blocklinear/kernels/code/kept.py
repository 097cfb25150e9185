"""Files in which compiled kernels are kept, for one state of all sources."""

import contextlib
import functools
import importlib.util
import os
import threading
from hashlib import sha256
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
_OF_NO_CODE = {
    "NUMBA_CACHE_DIR",
    "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "NUMBA_THREADING_LAYER_PRIORITY",
}  # fmt: skip
"""Variables without a part in compiled code: no kernel uses Numba's threads. joblib sets their
number in its processes, which would compile all kernels again, and replace those of others."""


def folders() -> list[Path]:
    """Return the folders where kernels may be kept: they are written to the first that can be.

    They are read from all of them, as an image may have them that was made by somebody else.
    """
    own = sha256(os.fsencode(PACKAGE)).hexdigest()[:16]  # there are others in shared folders
    given, cache = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    shared = Path(cache or os.path.expanduser("~/.cache"))
    found = [Path(given) / f"blocklinear-{own}"] if given else []
    return [*found, PACKAGE / "kernels" / "__pycache__", shared / "blocklinear" / f"kernels-{own}"]


def sources() -> list[Path]:
    """Return the files that have a part in compiled code, in order."""
    return sorted((PACKAGE / "kernels").rglob("*.py"))


@functools.cache
def state() -> bytes:
    """Return a digest of all that compiled code follows from, but for the processor."""
    found = importlib.util.find_spec("numba")
    assert found is not None
    assert found.origin is not None
    digest = sha256()
    for file in (*sources(), Path(found.origin).with_name("_version.py")):
        digest.update(sha256(file.read_bytes()).digest())
    asked = [
        (name, of) for name, of in sorted(os.environ.items())
        if name.startswith("NUMBA_") and name not in _OF_NO_CODE
    ]  # fmt: skip
    digest.update(repr(asked).encode())
    return digest.digest()


def read(name: str) -> bytes | None:
    """Return what is kept under a name; None if there is nothing, or of other sources."""
    for folder in folders():
        with contextlib.suppress(OSError):
            data = (folder / name).read_bytes()
            if data.endswith(state()):
                return data.removesuffix(state())
    return None


def keep(name: str, data: bytes) -> None:
    """Keep something as a whole, as others may read it meanwhile, if a folder can be written to."""
    for folder in folders():
        part = folder / f"{name}.{os.getpid()}.{threading.get_ident()}.tmp"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data + state())
            part.replace(folder / name)
            return
        except OSError:
            continue
        finally:
            with contextlib.suppress(OSError):
                part.unlink()
