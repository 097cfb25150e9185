"""The report of a plan: its figures, as JSON and as lines for people."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from blocklinear.markup import text_html
from blocklinear.memory import exact_size, format_size
from blocklinear.planning.growth import Range


@dataclass(frozen=True)
class PlanReport:
    """What `plan` found; seconds, bytes and counts, most of them as a `Range`.

    Attributes
    ----------
    source : str              "text" or "store"
    sample : dict             rows and text bytes (or blocks) that were looked at, their share
    rows, features, entries : Range
    store_bytes : Range
    least_memory, advised_memory : int
    memory : int              the budget that seconds are for
    in_memory : bool          whether all rows stay in memory between passes of training
    split_s : Range or None   None for a store
    pass_s : Range            to read and decode all blocks
    train_s : Range or None   None where no training on the sample converged; see `notes`
    outer : int or None       outer iterations of the largest training on the sample
    read_bytes, disk_bytes : Range          read from the input; and on disk at the end
    network_bytes : Range     from a URL, and between machines
    workers : dict or None    for N machines: split_s, pass_s, train_s, network_bytes
    seconds : float           that planning took
    notes : list[str]
    """

    source: str
    sample: dict[str, Any]
    rows: Range
    features: Range
    entries: Range
    store_bytes: Range
    least_memory: int
    advised_memory: int
    memory: int
    in_memory: bool
    split_s: Range | None
    pass_s: Range
    train_s: Range | None
    outer: int | None
    read_bytes: Range
    disk_bytes: Range
    network_bytes: Range
    workers: dict[str, Any] | None
    seconds: float
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return json.dumps(asdict(self))

    def summary(self) -> str:
        """Return the report in lines for people."""
        lines = [
            f"from {_share(self.sample['share'])} rows, in {self.seconds:.1f} s "
            "(in brackets: from where to where)",
            f"rows            {_count(self.rows)}",
            f"features        {_count(self.features)}",
            f"entries         {_count(self.entries)}",
            f"store           {_size(self.store_bytes)}",
            f"disk in all     {_size(self.disk_bytes)}",
            f"read            {_size(self.read_bytes)}",
            f"network         {_size(self.network_bytes)}",
            f"memory          at least {exact_size(self.least_memory)}, advised "
            f"{exact_size(self.advised_memory)}",
            f"with --memory {exact_size(self.memory)}: rows "
            + ("stay in memory" if self.in_memory else "are read again in each pass"),
        ]
        lines += _times("", self.split_s, self.pass_s, self.train_s)
        if self.workers is not None:
            w = self.workers
            lines.append(f"with {w['workers']} machines, from simulations:")
            lines += _times("  ", w["split_s"], w["pass_s"], w["train_s"])
            lines.append(f"  network       {_size(w['network_bytes'])}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return text_html(self.summary())


def _share(share: float) -> str:
    return "all" if share == 1.0 else f"{100 * share:.2g} % of the"


def _times(indent: str, split_s: Range | None, pass_s: Range, train_s: Range | None) -> list[str]:
    rows = [("split", split_s), ("a pass", pass_s), ("training", train_s)]
    width = 16 - len(indent)
    return [f"{indent}{name:{width}}{_seconds(found)}" for name, found in rows if found is not None]


def _count(found: Range) -> str:
    return _with_range(found, lambda number: f"{number:.3g}" if number >= 1e6 else f"{number:.0f}")


def _size(found: Range) -> str:
    return _with_range(found, format_size)


def _seconds(found: Range) -> str:
    return _with_range(found, lambda s: f"{s:.2g} s" if s < 100 else f"{s:.0f} s")


def _with_range(found: Range, shown: Callable[[float], str]) -> str:
    low, likely, high = shown(found.low), shown(found.likely), shown(found.high)
    return likely if low == high else f"{likely} ({low} to {high})"
