"""Keywords of options: other names they go by, and a sentence for names that there are not."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from blocklinear.errors import UsageError, WrongTypeError
from blocklinear.memory import parse_size

ALIASES = {"C": "cost", "memory": "memory_bytes"}
"""Names that are accepted, each with the option it stands for."""
_ELSEWHERE = {
    "Cs": "costs",
    "class_weight": "class_weights",
    "cv": "folds",
    "dual": "solver",
    "fit_intercept": "bias",
    "intercept_scaling": "bias",
    "loss": "solver",
    "max_iter": "max_outer",
    "memory_limit": "memory",
    "n_jobs": "threads",
    "n_splits": "folds",
    "n_threads": "threads",
    "eps": "tolerance",
    "tol": "tolerance",
    "overwrite": "force",
    "param_grid": "costs",
    "penalty": "solver",
    "random_state": "seed",
    "sample_weight": "weights",
    "scoring": "metric",
    "eval": "evaluate",
    "time_limit": "time_limit_s",
}
"""Names of the same thing in other libraries and on the command line."""
_NEAR = 0.6
"""Of names less alike than this, as `difflib` says, neither was meant for the other."""
Kind = TypeVar("Kind", bound=type)


def names_of(kind: type) -> list[str]:
    """Return the names that keywords of a dataclass of options may have."""
    names = [field.name for field in fields(kind)]
    return names + [alias for alias, name in ALIASES.items() if name in names]


def refuse_unknown(settings: Iterable[str], known: Iterable[str], owner: str) -> None:
    """Refuse the first keyword that is not known, and name the nearest one that is.

    A name that another library has is not compared: what it is near to is something else.

    Raises WrongTypeError.

    Parameters
    ----------
    owner : str               what takes the keywords, for the message
    """
    names = list(known)
    for name in settings:
        if name in names:
            continue
        if name in _ELSEWHERE:
            near = [_ELSEWHERE[name]] if _ELSEWHERE[name] in names else []
        else:
            import difflib  # late: few names are wrong

            lower = {other.lower(): other for other in names}
            found = difflib.get_close_matches(name.lower(), lower, 1, _NEAR)
            near = [lower[other] for other in found]
        fix = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(names))}"
        raise WrongTypeError(f"{owner} has no option {name}", fix)


def translated(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords by the names of options, with values as options take them.

    ``memory`` may be a size as "512M"; weights of classes may be a dict.

    UsageError is raised if an option is given by two names, or a size is none; WrongTypeError if
    weights of classes are neither a dict nor pairs.
    """
    found: dict[str, Any] = {}
    for given, value in settings.items():
        name = ALIASES.get(given, given)
        if name in found:
            raise UsageError(f"{name} is given twice, under two names", "give it once")
        if given == "memory" and isinstance(value, str):
            value = parse_size(value)
        elif name == "class_weights":
            value = _pairs_of_weights(value)
        found[name] = value
    return found


def _pairs_of_weights(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(value.items())
    if not isinstance(value, tuple | list) and not hasattr(value, "shape"):
        raise WrongTypeError(
            f"class_weights is {type(value).__name__}, but must be a dict",
            "give {LABEL: WEIGHT, ...}; balanced=True weighs classes by their numbers of rows",
        )
    return value


def with_aliases(kind: Kind) -> Kind:
    """Let a dataclass of options take `ALIASES`, and refuse unknown keywords in a sentence."""
    made, known = kind.__init__, names_of(kind)  # type: ignore[misc]

    @functools.wraps(made)
    def init(self: Any, *values: Any, **settings: Any) -> None:
        refuse_unknown(settings, known, kind.__name__)
        made(self, *values, **translated(settings))

    kind.__init__ = init  # type: ignore[misc]
    return kind
