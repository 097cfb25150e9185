"""What starts the program, also by `python -m`: signals are heeded before most is imported."""

import atexit
import contextlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from blocklinear.cli.stopper import heed


def program() -> NoReturn:
    """Run the command line, and end the process."""
    heed(_leave)
    ended: list[int] = []
    atexit.register(_end_at_once, ended)  # the first that is registered is the last that is called
    from blocklinear.cli.main import main  # most of what it takes to start

    ended.append(main())
    sys.exit(ended[0])


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """End the process by a signal before a command has begun, or after it has ended."""
    name, status = ("interrupted", 130) if number == signal.SIGINT else ("terminated", 143)
    with contextlib.suppress(OSError):
        os.write(2, f"blocklinear: {name}\n".encode())
    os._exit(status)


def _end_at_once(ended: list[int]) -> None:
    """End the process at once, if the command has ended, after what can still be written.

    An orderly exit would read 100 MB of LLVM's code again, to free what it holds; and where output
    cannot be written, which `main` has reported, it would report that again, with another status.
    """
    if ended:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(ended[0])


if __name__ == "__main__":
    program()
