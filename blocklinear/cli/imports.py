"""Files that imports read, asked for ahead of them.

A command imports hundreds of modules, each from a file of its own. From a cold disk it waits for
one after another; asked for together, they come while others are being run.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from blocklinear.cli.compiling import cache_folder


@contextlib.contextmanager
def asked_for(command: str) -> Iterator[None]:
    """Ask for the files that a command imports, as it did before; note them if it did not.

    The list lies next to compiled kernels. It is made anew when a file of it has gone, as after an
    update.
    """
    folder = cache_folder()
    if folder is None or not hasattr(os, "posix_fadvise"):  # macOS has no such call
        yield
        return
    noted, before = folder / f"imports-{command}.txt", {*sys.modules}
    threading.Thread(target=_ask_for_all, args=(noted,), name="imports", daemon=True).start()
    yield
    if not noted.exists():
        _note([name for name in sys.modules if name not in before], noted)


def _ask_for_all(noted: Path) -> None:
    """Have the system read the files of a list, without waiting for them."""
    with contextlib.suppress(OSError):
        try:
            for path in noted.read_text().splitlines():
                descriptor = os.open(path, os.O_RDONLY)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
                os.close(descriptor)
        except FileNotFoundError:
            noted.unlink()


def _note(modules: list[str], noted: Path) -> None:
    """List the files that modules were read from, in this order."""
    specs = [getattr(sys.modules[name], "__spec__", None) for name in modules]
    pairs = [(spec.cached, spec.origin) for spec in specs if spec is not None and spec.has_location]
    files = [code if code and os.path.exists(code) else source for code, source in pairs]
    with contextlib.suppress(OSError):
        own = Path(f"{noted}.{os.getpid()}")
        own.write_text("\n".join(files))
        own.replace(noted)
