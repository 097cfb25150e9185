"""What a run or a model is, in words and numbers for people."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from blocklinear.events import NO_BETTER_SCORE
from blocklinear.markup import facts_html
from blocklinear.memory import format_size
from blocklinear.numerals import counted, format_number
from blocklinear.report.records import PHASES, RunRecords, is_number
from blocklinear.solver_types import ONE_CLASS, SOLVER_TYPES, SOLVERS_BY_NAME

PHASE_NAMES = {
    "solve_s": "working on rows",
    "wait_s": "waiting for blocks",
    "certify_s": "certifying the gap",
    "score_s": "scoring held-out rows",
    "save_s": "saving checkpoints",
    "other_s": "other",
}
"""What the time of a run is spent on, in the order of the page."""
_SETTINGS = {
    "solver": "loss",
    "method": "method",
    "cost": "C",
    "costs": "values of C",
    "class_weights": "weights of classes",
    "balanced": "balanced classes",
    "epsilon": "epsilon",
    "nu": "nu",
    "l1_ratio": "l1 ratio",
    "bias": "bias feature",
    "gap": "gap to reach",
    "tolerance": "violation to reach",
    "max_outer": "most outer iterations",
    "time_limit_s": "time limit",
    "evaluate": "held-out rows",
    "patience": "patience",
    "epochs": "epochs per block step",
    "selection": "rows of an epoch",
    "group": "blocks per block step",
    "average": "averaged block steps",
    "sample_blocks": "sampled blocks",
    "seed": "seed",
    "threads": "threads",
    "memory_bytes": "memory budget",
    "run": "name of the run",
    "warm_start": "warm start",
    "resume": "resumed",
}
_LONGEST = 200
_MOST_BATCHES = 10
NONE = "\N{EN DASH}"
"""Stands where there is no value."""


def seconds_text(seconds: float) -> str:
    """Return a time as people write it: ``0.35 s``, ``12.4 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if 0.0 < seconds < 0.001:
        return "< 0.001 s"
    if seconds < 99.5:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def size_text(n_bytes: float) -> str:
    """Return a number of bytes with its unit: ``312 MiB``."""
    text = format_size(n_bytes)
    unit = text[-1]
    return f"{text[:-1]} {unit}iB" if unit != "B" else f"{text[:-1]} bytes"


def number_text(value: object) -> str:
    """Return a number of six digits at most, counts with separators; a dash where there is none."""
    if not is_number(value):
        return NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def shortened(text: str, most: int = _LONGEST) -> str:
    """Return text whose end is left out where it is too long."""
    return text if len(text) <= most else text[: most - 1] + "…"


def certificate_text(primal: object, dual: object, gap: object, several: bool = False) -> str:
    """Return what a certificate proves, in words.

    Parameters
    ----------
    primal, dual, gap : float, or something else where they are unknown
    several : bool            whether they are of several models: sums, and the largest gap
    """
    if not is_number(gap):
        return "Nothing is proven about this model: it has no certificate."
    if gap >= 1.0:
        return "The certificate proves nothing yet: its gap is 1 or more."
    # P - P* <= gap P: of P* itself that is at most gap / (1 - gap)
    # the same of a one-class SVM, where P* is below 0 and the gap is over -D
    bound = f"at most {_percent_above(gap / (1.0 - gap))} above the optimum"
    if not (is_number(primal) and is_number(dual)):
        return (
            f"The objective of each model is {bound}: that is proven by a pass over all rows, "
            "rounding errors included."
        )
    if primal - dual > (1.01 * gap + 1e-9) * max(abs(primal), abs(dual)):  # see `Certificate`
        return (
            f"The model has the objective P = {primal:.9g}. No model can have less than D = "
            f"{dual:.9g}, which is 0 but for rounding: no plane separates 0 from enough of the "
            "rows, and predictions mean nothing."
        )
    if several:
        return (
            f"The objective of each model is {bound}: that is proven by a pass over all rows, "
            f"rounding errors included. Summed over the models, the objective is P = "
            f"{primal:.9g}, and no models can have less than D = {dual:.9g}."
        )
    return (
        f"The model has the objective P = {primal:.9g}. No model can have less than D = "
        f"{dual:.9g}: so its objective is {bound}. That is proven by a pass over all rows, "
        "rounding errors included."
    )


def _percent_above(share: float) -> str:
    """Return a share in percent, to three digits that are not below it."""
    text = f"{100 * share:.3g}"
    if float(text) < 100 * share:
        unit = 10.0 ** (math.floor(math.log10(100 * share)) - 2)
        text = f"{100 * share + unit / 2:.3g}"
    return f"{text} %"


def status(history: RunRecords) -> tuple[str, str]:
    """Return how a run stands, as a word for its colour and a sentence.

    Returns
    -------
    kind : {"good", "warn", "bad"}
    text : str
    """
    ended = history.ended
    if ended is None:
        if history.started is None and history.has_ended:  # of a version that did not report ends
            return "good", "Reached its goal."
        n = len(history.events)
        return "warn", (
            f"Not ended: {counted(n, 'outer iteration')} so far. It goes on, or was killed."
        )
    stopped = str(ended.get("stopped"))
    if ended.get("outer") is None:
        return "bad", f"Ended without a model: {shortened(stopped)}."
    if stopped == "ended":
        return "good", "Ended."
    if stopped == "converged":
        return "good", "Converged: what was asked for is proven."
    if stopped.endswith(NO_BETTER_SCORE):  # as was asked for
        return (
            "warn",
            f"Stopped before its goal, after {shortened(stopped)}: the best model is kept.",
        )
    return "warn", f"Not converged after {shortened(stopped)}."


def certificate_of(history: RunRecords) -> dict[str, Any] | None:
    """Return primal, dual and gap as they were last certified; None if they never were."""
    ended = history.ended
    if ended is not None and is_number(ended.get("gap")):
        return ended
    proven = [event for event in history.events if event.get("certified")]
    return proven[-1] if proven else None


def times(history: RunRecords) -> dict[str, float]:
    """Return the seconds of each of `PHASE_NAMES`, those that are 0 left out."""
    spent = {name: history.spent.get(name, 0.0) for name in PHASES}
    total = history.seconds
    ended = (history.ended or {}).get("seconds")
    if is_number(ended) and not history.options.get("resume"):
        total = max(total, ended)
    spent["other_s"] = max(total - sum(spent.values()), 0.0)
    return {name: spent[name] for name in PHASE_NAMES if spent[name] > 0.0}


def settings(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a run by their names for people, those that are not set left out."""
    facts = {}
    for name, title in _SETTINGS.items():
        value = options.get(name)
        unset = value in (None, False, [], "") or (name == "bias" and _negative(value))
        several = bool(options.get("costs")) and name == "cost"
        number = options.get("solver")
        solver = SOLVER_TYPES.get(number) if isinstance(number, int) else None
        unset |= several or (name == "epsilon" and not (solver and solver.regression))
        unset |= name == ("cost" if number == ONE_CLASS else "nu")
        unset |= name == "l1_ratio" and value == 1.0
        if not unset:
            facts[title] = shortened(_setting(name, value))
    return facts


def _negative(value: object) -> bool:
    return is_number(value) and value < 0


def _setting(name: str, value: Any) -> str:
    if name == "solver" and isinstance(value, int):
        return _loss_text(value)
    if name == "memory_bytes" and is_number(value):
        return size_text(value)
    if name == "time_limit_s" and is_number(value):
        return seconds_text(value)
    if name == "class_weights" and isinstance(value, list):
        return ", ".join(f"{label}: {weight}" for label, weight in _pairs(value))
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return "yes" if value is True else _plain(value)


def _pairs(value: Sequence[Any]) -> list[tuple[str, str]]:
    return [
        (_plain(pair[0]), _plain(pair[1]))
        for pair in value
        if isinstance(pair, list | tuple) and len(pair) == 2
    ]


def _plain(value: object) -> str:
    return format_number(value) if is_number(value) else str(value)


def loss_name(solver: str) -> str:
    """Return the loss of a model, by LIBLINEAR's name of its problem."""
    return _loss_text(SOLVERS_BY_NAME[solver].number)


def _loss_text(number: int) -> str:
    """Return the loss of a problem, by its number, which a run log may have from elsewhere."""
    solver = SOLVER_TYPES.get(number)
    if solver is None:
        return f"unknown (-s {number})"
    return f"{solver.loss}{', L1-regularised' if solver.l1 else ''} (-s {number})"


def store_facts(store: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run was trained on."""
    rows, nnz = store.get("rows"), store.get("nnz")
    facts = {
        "store": shortened(str(store.get("path", NONE))),
        "rows": number_text(rows),
        "features": number_text(store.get("features")),
        "nonzeros": number_text(nnz),
    }
    if is_number(rows) and is_number(nnz) and rows:
        facts["nonzeros"] += f" ({nnz / rows:.3g} a row)"
    if store.get("hash_bits"):
        facts["features"] += f", hashed to {counted(store['hash_bits'], 'bit')}"
    if store.get("normalize") not in (None, "none"):
        facts["rows"] += ", divided by their Euclidean norm"
    if store.get("weighted"):
        facts["rows"] += ", with weights"
    if is_number(store.get("blocks")):
        facts["blocks"] = number_text(store["blocks"])
    if is_number(store.get("bytes")):
        facts["blocks"] = f"{facts.get('blocks', NONE)}, {size_text(store['bytes'])} on disk"
    facts["classes"] = number_text(store.get("classes"))
    if is_number(store.get("batches")) and store["batches"] > 1:
        facts["batches"] = _batches(store["batches"], store.get("last_batches"))
    return facts


def _batches(count: float, last: object) -> str:
    """Return how many batches there are, with the last ones."""
    dicts = [batch for batch in last if isinstance(batch, dict)] if isinstance(last, list) else []
    listed = ", ".join(
        f"{shortened(str(batch.get('name')), 40)} ({_rows(batch.get('rows'))})"
        for batch in dicts[-_MOST_BATCHES:]
    )
    more = "... " if len(dicts[-_MOST_BATCHES:]) < count else ""
    return f"{number_text(count)}: {more}{listed}" if listed else number_text(count)


def warm_start_text(found: Mapping[str, Any] | None) -> str:
    """Return what a run that was to start warm began with."""
    if found is None:
        return "asked for, but there was nothing to start from"
    kept, gone = (number_text(found.get(f"rows_{name}")) for name in ("kept", "gone"))
    return (
        f"from an earlier run: {kept} of its rows kept, {_rows(found.get('rows_new'))} new, "
        f"{gone} gone"
    )


def _rows(n: object) -> str:
    return counted(n, "row", form=",") if isinstance(n, int) else f"{number_text(n)} rows"


def key_facts(history: RunRecords) -> dict[str, str]:
    """Return the few numbers of a run that are looked at first."""
    facts = {}
    found = certificate_of(history)
    if found is not None:
        facts["certified gap"] = f"{found['gap']:.3g}"
    elif history.events and is_number(history.events[-1].get("gap")):
        facts["estimated gap"] = f"{history.events[-1]['gap']:.3g}"
    spent = times(history)
    if spent:
        facts["time"] = seconds_text(sum(spent.values()))
    outer = (history.ended or {}).get("outer") or (history.events or [{}])[-1].get("outer")
    if is_number(outer):
        facts["outer iterations"] = number_text(outer)
    if history.peak_bytes:
        facts["peak memory"] = size_text(history.peak_bytes)
    if history.store:
        facts |= {name: number_text(history.store.get(name)) for name in ("rows", "features")}
    last = history.events[-1] if history.events else {}
    for name, title in (
        ("accuracy", "held-out accuracy"), ("mean_squared_error", "held-out squared error"),
    ):  # fmt: skip
        if is_number(last.get(name)):
            facts[title] = f"{last[name]:.4g}"
    return facts


def history_html(history: RunRecords) -> str:
    """Return a run as a table for a notebook."""
    facts = {"": status(history)[1], **key_facts(history)}
    return facts_html(f"Run {history.name}", facts)
