"""The run log: one JSON object a line, for scripts."""

import json
import math
import os
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from blocklinear.errors import storage_errors
from blocklinear.events import Event, OuterIteration, SplitProgress, Warned

_NAMES = {OuterIteration: "outer", Warned: "warning"}


class RunLog:
    """A listener that appends events to a JSONL file, each line flushed as it is written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        with storage_errors(path, "open"):
            self._stream = open(path, "w", encoding="utf-8")  # noqa: SIM115

    def __call__(self, event: Event) -> None:
        """Write one event."""
        if isinstance(event, SplitProgress):
            return
        fields: dict[str, Any] = {"event": _NAMES[type(event)], **asdict(event)}
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fields.items()
        }
        with storage_errors(self._path, "write"):
            self._stream.write(json.dumps(finite) + "\n")
            self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._stream.close()
