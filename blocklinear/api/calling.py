"""What the public functions have in common: options by keyword, and the listener to events."""

import contextlib
import dataclasses
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from blocklinear.arguments import check_options
from blocklinear.errors import BlocklinearWarning
from blocklinear.events import Event, Listener, Warned
from blocklinear.keywords import ALIASES, names_of, refuse_unknown, translated
from blocklinear.options import TextOptions
from blocklinear.progress import ProgressBar

Options = TypeVar("Options")
P = ParamSpec("P")
R = TypeVar("R")


def takes(*kinds: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Name the options that a function takes by keyword in its signature, for help and editors."""

    def with_signature(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        args = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        names = {p.name for p in args}
        for name in dict.fromkeys(name for kind in kinds for name in names_of(kind)):
            if name not in names and name not in ("text", *ALIASES):
                args.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_UNSET))
        function.__signature__ = signature.replace(parameters=args)  # type: ignore[attr-defined]
        return function

    return with_signature


class _Unset:
    def __repr__(self) -> str:
        return "..."


_UNSET = _Unset()


def options_of(
    kind: type[Options],
    options: Options | None,
    settings: Mapping[str, Any],
    function: Callable[..., Any],
) -> Options:
    """Return options with those given by keyword in their place.

    WrongTypeError is raised if `options` is of another type, or a keyword is unknown; UsageError if
    a value breaks its rule.

    Parameters
    ----------
    kind : type               a dataclass of options; keywords of its field `text`, if it has one,
                              are taken for it
    settings : mapping        keywords
    function : callable       what was given the keywords; messages name it and its keywords
    """
    if options is not None:
        check_options(options, kind)
    base: Any = kind if options is None else options  # what follows from others is not set yet
    names = {field.name for field in dataclasses.fields(base)}
    inner: Any = getattr(kind() if options is None else options, "text", None)
    known = names_of(kind) + ([] if inner is None else names_of(TextOptions))
    given = inspect.signature(function).parameters.values()
    own = [p.name for p in given if p.kind is p.KEYWORD_ONLY]
    refuse_unknown(settings, dict.fromkeys([*known, *own]), f"{function.__name__}()")
    changes = translated(settings)
    of_text = {key: value for key, value in changes.items() if key not in names}
    changes = {key: value for key, value in changes.items() if key in names}
    if of_text:
        inner = changes.get("text", inner)
        changes["text"] = dataclasses.replace(inner, **of_text)
    if options is None:
        return kind(**changes)
    changed: Options = dataclasses.replace(base, **changes)
    return changed


@contextlib.contextmanager
def telling(
    listener: Listener | None, verbose: bool, goal: float | None = None
) -> Iterator[Listener]:
    """Yield a listener: that of the caller, or one that warns; with a progress bar if `verbose`."""
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(ProgressBar(goal)) if verbose else None
        heard = _warn if listener is None else listener

        def tell(event: Event) -> None:
            if bar is not None:
                bar(event)
            heard(event)

        yield tell


def _warn(event: Event) -> None:
    """Give a warning of Python's for one of ours."""
    if isinstance(event, Warned):
        warn_caller(event.message, BlocklinearWarning)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Give a warning at the line that called the package."""
    level, frame = 1, sys._getframe()
    internal = "blocklinear.", "contextlib"  # which enters the generators of `with`
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(internal):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
