"""Arguments that several commands take: their types, and the options of the same name."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from blocklinear.errors import UsageError, quoted, quoted_name, shown
from blocklinear.memory import parse_size
from blocklinear.numerals import parse_label

if TYPE_CHECKING:
    from blocklinear.classes import Classes

_ARGUMENTS = {
    "evaluate": "eval", "inner_tolerance": "inner_tol", "memory_bytes": "memory",
    "record_sha256": "sha256", "run": "run_name", "time_limit_s": "time_limit",
}  # fmt: skip
"""Fields of options, and the arguments for them where these have other names."""


def size(text: str) -> int:
    """Read a SIZE argument."""
    try:
        return parse_size(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.what) from error


def solver_number(text: str) -> int | str:
    """Read a solver: LIBLINEAR's number, or auto."""
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is neither a number nor auto") from None


def solver_of(solver: int | str | None, method: str | None) -> dict[str, Any]:
    """Return the options that a solver and a method given stand for.

    UsageError is raised if they contradict each other.
    """
    if solver != "auto":
        return given(solver=solver, method=method)
    if method not in (None, "auto"):
        raise UsageError(
            f"-s auto chooses the method, and --method {method} is given", "leave one of them out"
        )
    return {"solver": 1, "method": "auto"}


def add_budget(parser: Any) -> None:
    """Add ``--memory`` and ``--threads``."""
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="memory budget of the whole process, as 512M or 4G (default: half of the memory of "
        "the machine or of its cgroup)",
    )
    parser.add_argument(
        "--threads", type=int, metavar="T", help="worker threads (default: one per processor)"
    )


def add_cache(parser: Any) -> None:
    """Add ``--cache`` and ``--cache-size``."""
    parser.add_argument(
        "--cache",
        metavar="FOLDER",
        help="where blocks of a store on a URL are kept (default: blocklinear/stores in "
        "$XDG_CACHE_HOME or ~/.cache)",
    )
    parser.add_argument(
        "--cache-size",
        type=size,
        metavar="SIZE",
        help="what the blocks kept of this store may take (default: all are kept)",
    )


def add_restart(parser: Any) -> None:
    """Add ``--restart``."""
    parser.add_argument(
        "--restart",
        action="store_true",
        help="start again where the run was interrupted, and delete its checkpoint "
        "(default: refuse)",
    )


def add_loss(parser: Any) -> None:
    """Add the parameters of losses, the bias, the elastic net, and weights of classes."""
    parser.add_argument(
        "-p",
        "--epsilon",
        type=float,
        metavar="EPS",
        help="epsilon of the regression losses (default 0.1)",
    )
    parser.add_argument(
        "-B", "--bias", type=float, metavar="B", help="value of the bias feature (default: none)"
    )
    parser.add_argument(
        "-R",
        "--free-bias",
        dest="regularize_bias",
        action="store_false",
        help="do not regularise the weight of the bias feature that -B adds (not with -s 4 or 21)",
    )
    parser.add_argument(
        "--l1-ratio",
        type=float,
        metavar="RATIO",
        help="of -s 5 and 6, the elastic net: weights cost RATIO times their absolute sum and "
        "(1 - RATIO) / 2 times their squared norm (default 1)",
    )
    parser.add_argument(
        "--class-weight",
        action="append",
        default=[],
        metavar="LABEL=W",
        help="multiply C for rows of a class; of a label that is a number also written -wLABEL W",
    )
    parser.add_argument(
        "--balanced",
        action="store_true",
        help="give each class the weight rows / (classes * rows of the class), where a row that "
        "has a weight counts that often",
    )


def add_resources(parser: Any) -> None:
    """Add the options of a run about its log, its progress, memory, threads and cache."""
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="append one JSON object per outer iteration, for `plot` and `report`",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    add_budget(parser)
    add_cache(parser)


def label_of(text: str, classes: "Classes") -> float:
    """Return the number that a LABEL argument has in blocks and models.

    UsageError is raised if it is neither a label as it was given nor a number.
    """
    for number, label in classes.items():
        if text == str(label):
            return number
    try:
        return parse_label(text)
    except UsageError:
        if not classes:
            raise
        known = ", ".join(shown(label) for label in map(str, classes.values()))
        raise UsageError(f"no class is {quoted_name(text)}", f"write one of {known}") from None


def add_positive(parser: argparse.ArgumentParser) -> None:
    """Add ``--positive``."""
    parser.add_argument(
        "--positive",
        type=str,  # a label of tables may be empty
        metavar="LABEL",
        help="with two classes, the one that F1 is computed for (default: the larger label)",
    )


def positive_of(args: argparse.Namespace, classes: "Classes") -> float | None:
    """Return the number of the class of ``--positive``, None if none is named."""
    return None if args.positive is None else label_of(args.positive, classes)


def class_weight(text: str) -> tuple[str, float]:
    """Read ``LABEL=W``."""
    label, equals, weight = text.rpartition("=")
    try:
        times = float(weight if equals else "")
    except ValueError:
        raise UsageError(f"class weight {text!r} is not LABEL=W", "write 1=5, or spam=5") from None
    if not 0.0 < times < math.inf:
        raise UsageError(f"weight of class {label} is {weight}, but must be finite and above 0")
    return label, times


def of_any_labels(weights: Sequence[tuple[str, float]]) -> tuple[tuple[float, float], ...]:
    """Return weights of classes to be checked before it is known which number a label has."""
    return tuple((float(number), weight) for number, (_, weight) in enumerate(weights))


def of_labels(
    weights: Sequence[tuple[str, float]], classes: "Classes"
) -> tuple[tuple[float, float], ...]:
    """Return weights of classes by the numbers that labels have in blocks."""
    return tuple((label_of(label, classes), weight) for label, weight in weights)


def costs_of(text: str) -> tuple[float, ...]:
    """Read ``C`` or ``C,C,...``."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"costs {text!r} are not numbers", "write -c 1, or -c 0.1,1,10") from None


def given(**options: object) -> dict[str, object]:
    """Return the options that are not None, so that the library's defaults hold for the rest."""
    return {name: value for name, value in options.items() if value is not None}


def fields_given(args: argparse.Namespace, kind: type) -> dict[str, Any]:
    """Return the fields of a dataclass of options whose arguments were given, as they were read."""
    names = [field.name for field in fields(kind)]
    return given(**{name: getattr(args, _ARGUMENTS.get(name, name), None) for name in names})
