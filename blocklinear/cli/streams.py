"""Standard output and standard error, where they are closed or cannot be written to."""

import io
import os
import sys


def open_streams() -> None:
    """Open the null device where the caller closed stdout or stderr: printing would fail.

    Descriptors 1 and 2 are occupied too, so that no file opened later gets them. What the encoding
    of stdout lacks is written in its place as stderr has it: a label need not be ASCII.
    """
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_WRONLY)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def discard_stdout() -> None:
    """Let what stdout still holds go nowhere: that it cannot be written has been noticed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
