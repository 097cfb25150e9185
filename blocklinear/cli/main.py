"""The entry point: reads arguments, runs one command, turns errors into exit codes."""

import argparse
import contextlib
import errno
import mmap
import re
import resource
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeGuard

from blocklinear import __version__
from blocklinear.cli.compiling import compiling, start_lightly
from blocklinear.cli.imports import asked_for
from blocklinear.cli.stopper import heed, restore
from blocklinear.cli.streams import discard_stdout, open_streams
from blocklinear.errors import BlocklinearError, MemoryBudgetError, StorageError, UsageError, shown

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_COMMANDS = (
    "check", "plan", "split", "add", "remove", "compact", "gc", "transpose", "train", "cv",
    "predict", "info", "verify", "convert", "plot", "report", "liblinear", "warmup",
)  # fmt: skip
_NOTHING_COMPILED = ("info", "convert", "remove", "gc", "plot", "warmup")
_ADDRESSES_OF_NUMPY = 88 << 20
"""What importing NumPy takes at least, with its OpenBLAS for x86-64; no command works in less."""
_LONG_WORD = re.compile(r"([^\s']{40})[^\s']{160,}")  # a path may be shorter
_NO_VALUE = re.compile(r"(--[a-z][a-z0-9-]*)=--|(-[A-Za-z])--")
_CLASS_WEIGHT = re.compile(r"-w([+-]?\.?[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?)")


class _Terminated(BaseException):
    """SIGTERM or SIGHUP arrived."""


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps paragraphs, but keeps the lines of a table."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" not in text:
            return super()._fill_text(text, width, indent)
        return "\n".join((indent + line).rstrip() for line in text.splitlines())


def _not_empty(text: str) -> str:
    """Refuse an empty argument, as of a variable that is not set: a path would be this folder."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return text


class _Parser(argparse.ArgumentParser):
    """Accepts options by their whole names only: an abbreviation may become ambiguous."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how, allow_abbrev=False, formatter_class=_HelpFormatter)
        self.register("type", None, _not_empty)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what a command does not know with its own usage; argparse shows that of all."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        super().error(shown(_LONG_WORD.sub(r"\1...", message)))

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Print help, or a version; argparse would hide that it cannot be written."""
        if file is not None and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)


def _parser(command: str = "") -> argparse.ArgumentParser:
    """Return what reads the arguments of a command; of all of them, unless it is one."""
    parser = _Parser(
        prog="blocklinear",
        description="Train linear models on data that does not fit in memory.",
        epilog="exit status: 0 ok, 2 usage, 3 malformed input, 4 damaged store or model, "
        "5 mismatch, 6 I/O, 7 memory budget, 8 store busy, 9 cluster, 130/143 stopped by a signal",
    )
    parser.add_argument("--version", action="version", version=f"blocklinear {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.type = str  # what follows a command is its own to look at
    for name in [command] if command in _COMMANDS else _COMMANDS:
        import_module(f"blocklinear.cli.commands.{name}").add_parser(commands)
    return parser


def _is_liblinear(arguments: Sequence[str]) -> bool:
    """Return whether the command is `liblinear`."""
    return bool(arguments) and arguments[0] == "liblinear"


def _spell_out(arguments: Sequence[str]) -> list[str]:
    """Rewrite ``--class-weight LABEL=W`` and LIBLINEAR's ``-wLABEL W`` as one word.

    argparse takes a word that begins with -1= for an option. UsageError is raised if the value of
    an option is ``--``, for which argparse gives a list of nothing.
    """
    if _is_liblinear(arguments):  # which takes it as it is
        return list(arguments)
    spelled: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":  # from here on, nothing is an option
            return [*spelled, argument, *rest]
        if match := _NO_VALUE.fullmatch(argument):
            raise UsageError(f"argument {match[1] or match[2]}: '--' is no value")
        if match := _CLASS_WEIGHT.fullmatch(argument):
            spelled.append(f"--class-weight={match[1]}={next(rest, '')}")
        elif spelled and spelled[-1] == "--class-weight":
            spelled[-1] += f"={argument}"
        else:
            spelled.append(argument)
    return spelled


class _Leaving:
    """Signals that end the command raise an exception while it is entered.

    It is raised wherever Python happens to be. Code that takes it for a failure of its own raises
    another, such as an ImportError; and where Python drops exceptions, as in a callback of C code,
    it is raised again a moment later.
    """

    def __init__(self) -> None:
        self.number = 0  # of the last signal that came

    def __enter__(self) -> Self:
        self._hook, sys.unraisablehook = sys.unraisablehook, self._again
        self._before = heed(self._leave)
        return self

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._hook
        if self.number:
            signal.setitimer(signal.ITIMER_REAL, 0)
        restore(self._before)

    def _leave(self, number: int, frame: object) -> None:
        self.number = number
        raise KeyboardInterrupt if number == signal.SIGINT else _Terminated

    def _again(self, dropped: Any) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt | _Terminated):
            self._hook(dropped)
            return
        signal.signal(signal.SIGALRM, lambda *_: self._leave(self.number, None))
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # not here, where it would be dropped, too

    def end(self) -> int:
        """Say that a signal ended the command; return the exit status."""
        if self.number in (0, signal.SIGINT):
            return _fail("interrupted", 130)
        return _fail("terminated", 143)


def _fail(text: str, code: int) -> int:
    with contextlib.suppress(OSError):
        print(f"blocklinear: {text}", file=sys.stderr)
    return code


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the arguments; what is asked for may be help, which ends the process when written."""
    try:
        return _parser(*arguments[:1]).parse_args(_spell_out(arguments))
    except SystemExit as leaving:
        sys.stdout.flush()
        if leaving.code and _is_liblinear(arguments):
            leaving.code = 1  # as all that is refused there
        raise


def _run(args: argparse.Namespace) -> int:
    """Run the command."""
    _require_addresses()
    compiles = args.command not in _NOTHING_COMPILED
    quiet = getattr(args, "quiet", False)
    if not compiles:
        return int(args.run(args))
    with asked_for(args.command), compiling(quiet):
        return int(args.run(args))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    open_streams()
    start_lightly()
    leaving = _Leaving()
    with contextlib.suppress(KeyboardInterrupt, _Terminated), leaving:
        try:
            status = _run(_parse(sys.argv[1:] if arguments is None else arguments))
            sys.stdout.flush()
            return status
        except Exception as error:
            if not leaving.number:
                return _failed(error)
    return leaving.end()  # which another signal, that raises nothing any more, may do at once


def _failed(error: Exception) -> int:
    """Say why the command failed; return the exit status."""
    if isinstance(error, BlocklinearError):
        return _fail(str(error), error.exit_code)
    if isinstance(error, BrokenPipeError):
        discard_stdout()
        return 128 + signal.SIGPIPE
    if _is_of_memory(error):
        limit = _limit_of_addresses()
        fix = "give a smaller --memory"
        if limit is not None:
            fix = f"raise the limit of addresses (ulimit -v), which is {limit >> 10}, or {fix}"
        return _fail(f"out of memory\n  fix: {fix}", MemoryBudgetError.exit_code)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        limits = "processes (ulimit -u, pids.max of a container) or addresses (ulimit -v)"
        what = "the system starts no more threads"
        fix = f"give fewer --threads, or raise the limit of {limits}"
        return _fail(f"{what}\n  fix: {fix}", StorageError.exit_code)
    if isinstance(error, ImportError) and _is_of_open_files(error.__cause__):
        error = error.__cause__
    if isinstance(error, OSError):
        place = shown(str(error.filename or "standard output"))
        fix = "check what it goes to, and its permissions"
        if _is_of_open_files(error):
            fix = "allow more open files (ulimit -n)"
        return _fail(f"{place}: {error.strerror}\n  fix: {fix}", StorageError.exit_code)
    raise error


def _is_of_open_files(error: BaseException | None) -> TypeGuard[OSError]:
    """Return whether a file, which may be one that is imported, was one too many."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def _is_of_memory(error: Exception) -> bool:
    """Return whether the system gave no memory.

    Libraries that it does not load for want of addresses raise errors of other kinds.
    """
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    unloaded = isinstance(error, ImportError | SystemError)
    return unloaded and _limit_of_addresses() is not None


def _require_addresses() -> None:
    """Raise OSError where a limit of addresses leaves no room to import NumPy.

    OpenBLAS would end the process with status 1. With a few KiB left, a thread that is started
    would die before it says so to the one that waits for it, which would then wait for ever.
    """
    if _limit_of_addresses() is not None:
        mmap.mmap(-1, _ADDRESSES_OF_NUMPY).close()


def _limit_of_addresses() -> int | None:
    """Return how many bytes the process may have addresses of; None if it has no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


if __name__ == "__main__":
    sys.exit(main())
