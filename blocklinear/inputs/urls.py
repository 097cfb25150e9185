"""What a URL is, and how it is shown: never with what gives access."""

import os
import re
from collections.abc import Iterable

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_ACCESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^\s/?]*@", re.IGNORECASE)
_QUERY = re.compile(
    r"(?P<place>[a-z][a-z0-9+.-]*://[^?\n]*)\?\S*?(?=['\")>,.;:]*(?:\s|$))", re.IGNORECASE
)
"""A place may have blanks and quotes; marks at the end of a query belong to the text around it."""


def is_url(path: object) -> bool:
    """Say whether a str is a URL, as ``s3://bucket/rows.svm``; a path object never is one."""
    return isinstance(path, str) and _SCHEME.match(path) is not None


def without_secrets(text: str) -> str:
    """Return a text without names, passwords and signed queries of the URLs in it."""
    return _QUERY.sub(r"\g<place>", _ACCESS.sub(r"\g<scheme>", text))


def shown_name(path: str | os.PathLike[str]) -> str:
    """Return how an input is named in messages and in what is recorded of it."""
    name = os.fspath(path)
    return without_secrets(name.partition("?")[0]) if is_url(path) else name


def shown_names(paths: Iterable[str | os.PathLike[str]]) -> str:
    """Return how several inputs are named in messages."""
    return ", ".join(map(shown_name, paths))


def joined(url: str, name: str) -> str:
    """Return the URL of a file in the folder `url`."""
    return f"{url.rstrip('/')}/{name}"
