"""The outputs of a command, all checked before it works."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from blocklinear.errors import StorageError, UsageError
from blocklinear.inputs.raw import size_of
from blocklinear.inputs.urls import is_url
from blocklinear.numerals import format_number
from blocklinear.outputs import Output
from blocklinear.store.manifest import Manifest


class Outputs:
    """The outputs of a command, all checked before it works.

    Parameters
    ----------
    inputs : str or None
        What the command reads: files, ``-``, a store, or text that a store is made of.
    """

    def __init__(self, *inputs: str | None) -> None:
        given = [name for name in inputs if name is not None]
        self._inputs = [*given, *(f"{name}.blocks" for name in given if name != "-")]
        self._all: list[Output] = []

    def add(
        self,
        name: str,
        check: Callable[[Output], Any] = lambda output: None,
        appends: bool = False,
    ) -> Output:
        """Check an output, by a function of the caller too, and return it.

        UsageError is raised if it must not be overwritten, or another output goes there;
        StorageError if it cannot be written to.
        """
        output = Output(name, self._inputs, appends)
        check(output)
        for other in self._all:
            if output.is_at(other):
                raise UsageError(
                    f"{name}: two outputs cannot go to the same place", "give each a name"
                )
        self._all.append(output)
        return output

    def add_models(self, name: str, costs: Sequence[float] = ()) -> list[Output]:
        """Check the file of a model, or one for each of several costs: ``MODEL.C=0.1``."""
        from blocklinear.model.files import check_replaceable

        if costs and Output(name, self._inputs).target is None:
            raise UsageError(f"{name}: several models cannot go there", "name a file")
        names = [f"{name}.C={format_number(cost)}" for cost in costs] or [name]
        return [self.add(name, check_replaceable) for name in names]

    def check_sources(self, manifest: Manifest) -> None:
        """Refuse to overwrite what a store was made from, wherever it was named.

        Raises UsageError.
        """
        made_from = {
            (Path(source["path"]).name, source["size"], source["mtime_ns"])
            for batch in manifest.batches
            for source in (*batch["sources"], *batch.get("weights", ()))
        }
        for output in self._all:
            if output.target is not None and output.is_file:
                found = output.target.stat()
                if (output.target.name, found.st_size, found.st_mtime_ns) in made_from:
                    raise UsageError(
                        f"{output.name}: is what the store was made from", "name another output"
                    )

    @property
    def results(self) -> TextIO:
        """Where results are printed: to stderr where an output goes to stdout."""
        return sys.stderr if any(output.is_stdout for output in self._all) else sys.stdout


def check_input(name: str | None, again: bool = False) -> None:
    """Refuse, before work begins, a file that will be read later and cannot be.

    Raises UsageError and StorageError.

    Parameters
    ----------
    again : bool              whether it is read more than once, as a stream cannot be
    """
    if name is None or (name == "-" and not again):
        return
    if is_url(name):
        size_of(name)
        return
    if not os.path.exists(name) and name != "-":
        raise StorageError(f"{name}: no such file", "check its name")
    if os.path.isdir(name) or (again and not os.path.isfile(name)):
        raise UsageError(f"{name}: is not a regular file", "name a file of LIBSVM text")
    if not os.access(name, os.R_OK):
        raise StorageError(f"{name}: may not be read", "check its permissions")
