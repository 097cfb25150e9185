"""A report: one page of HTML that holds all it shows, of a run, a model, or both."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blocklinear import __version__
from blocklinear.arguments import Path
from blocklinear.classes import label_text
from blocklinear.errors import UsageError
from blocklinear.figures.costs import METRIC_NAMES
from blocklinear.inputs.urls import shown_name
from blocklinear.markup import escaped, facts_table, table
from blocklinear.model.confusion import CLASS_HEADER
from blocklinear.model.evaluation import Evaluation
from blocklinear.model.linear import LinearModel, Names
from blocklinear.numerals import counted, format_number
from blocklinear.outputs import Output
from blocklinear.report import facts
from blocklinear.report.pictures import MOST_IN_MATRIX, Pictures
from blocklinear.report.records import RunRecords, is_number
from blocklinear.report.style import style_sheet

_MOST_CLASSES = 20
_MOST_WEIGHTS = 20
_WEIGHTS_OF_A_CLASS = 6
_MOST_LINES = 40
_MOST_WARNINGS = 20
_MOST_PAIRS = 20
_MOST_COSTS = 60
_LONGEST_TITLE, _LONGEST_NAME = 80, 40


@dataclass(frozen=True, eq=False)
class Subject:
    """What a report is about: a run, a model, or a run with the model that came of it."""

    title: str
    history: RunRecords | None = None
    model: LinearModel | None = None
    names: Names | None = None  # of the features, if not those of the model
    evaluation: Evaluation | None = None  # of the model on rows that it was not trained on
    test: Sequence[Path] = ()  # where these rows are from: files, or URLs


def write_page(subject: Subject, output: str | os.PathLike[str] | Output) -> str:
    """Write a report; return why it has no figures, or an empty text.

    UsageError is raised if the output must not be overwritten, or there is neither a run nor a
    model. Raises StorageError, too.
    """
    place = Output.of(output)
    page, missing = page_of(subject)
    with place.open() as stream:
        stream.write(page.encode("utf-8", "replace"))
    return missing


def page_of(subject: Subject) -> tuple[str, str]:
    """Return a report as a page, and why it has no figures, or an empty text.

    UsageError is raised if there is neither a run nor a model.
    """
    history, model = subject.history, subject.model
    if history is None and model is None:
        raise UsageError("there is nothing to report on", "name a log or a model")
    pictures = Pictures()
    parts = [_head(subject)]
    if pictures.missing:
        parts.append(f'<p class="warn">There are no figures: {escaped(pictures.missing)}.</p>')
    parts.append(_certificate(history, model))
    if history is not None:
        parts += [_validation(history, pictures), _course(history, pictures), _time(history)]
    if subject.evaluation is not None:
        parts.append(_evaluation(subject.evaluation, subject.test, pictures))
    if model is not None:
        parts.append(_weights(model, subject.names, pictures))
    parts.append(_data(history, model))
    if history is not None:
        parts += [_warnings(history), _iterations(history)]
    parts.append(f"<footer>Written by blocklinear {escaped(__version__)}.</footer>")
    title = escaped(facts.shortened(subject.title, _LONGEST_TITLE))
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{style_sheet()}</style></head>\n"
        f'<body><main class="blocklinear">\n{"".join(parts)}</main></body></html>\n'
    )
    return page, pictures.missing


def _section(title: str, *parts: str) -> str:
    body = "".join(parts)
    return f"<section><h2>{escaped(title)}</h2>\n{body}</section>\n" if body else ""


def _text(text: str, kind: str = "") -> str:
    return f"<p{f' class={kind!r}' if kind else ''}>{escaped(text)}</p>"


def _figures(figures: Sequence[str]) -> str:
    return f'<div class="figures">{"".join(figures)}</div>' if figures else ""


def _scroll(html: str) -> str:
    return f'<div class="scroll">{html}</div>'


def _columns(*parts: str) -> str:
    return f'<div class="columns">{"".join(f"<div>{part}</div>" for part in parts if part)}</div>'


def _details(summary: str, html: str) -> str:
    return f"<details><summary>{escaped(summary)}</summary>{html}</details>"


def _head(subject: Subject) -> str:
    history, model = subject.history, subject.model
    head = f"<h1>{escaped(facts.shortened(subject.title, _LONGEST_TITLE))}</h1>"
    keys = {}
    if history is not None:
        kind, text = facts.status(history)
        head += f'<p class="status {kind}">{escaped(text)}</p>'
        keys = facts.key_facts(history)
    elif model is not None:
        head += _text(f"A model, {facts.loss_name(model.solver)}.", "soft")
        found = _mapping(model.metadata.get("certificate"))
        if is_number(found.get("gap")):
            keys["certified gap"] = f"{found['gap']:.3g}"
        keys["features"] = facts.number_text(model.n_features)
        if model.labels:
            keys["classes"] = facts.number_text(len(model.labels))
    if model is not None:
        keys["nonzero weights"] = facts.number_text(int(np.count_nonzero(model.weights)))
    if subject.evaluation is not None:
        score = subject.evaluation.score.as_dict()
        for name, title in (
            ("accuracy", "test accuracy"), ("mean_squared_error", "test squared error"),
        ):  # fmt: skip
            if is_number(score.get(name)):
                keys[title] = f"{score[name]:.4g}"
    cells = "".join(
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(text)}</dd></div>"
        for name, text in keys.items()
    )
    return f'{head}<dl class="keys">{cells}</dl>\n'


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _validates(history: RunRecords | None) -> bool:
    """Return whether a run is a cross-validation."""
    return history is not None and (history.started or {}).get("task") == "cross-validation"


def _certificate(history: RunRecords | None, model: LinearModel | None) -> str:
    validating = _validates(history)
    found: Mapping[str, Any] | None = None
    if history is not None:
        found = facts.certificate_of(history)
    if found is None and model is not None:
        found = _mapping(model.metadata.get("certificate"))
    if not found:
        return _section("Certificate", _text("Nothing is proven yet: no gap was certified."))
    n_models = history.events[-1].get("n_models") if history and history.events else 1
    grid = history is not None and len(_list(history.options.get("costs"))) > 1
    columns = model.n_columns if model is not None else n_models
    if (history is not None and history.options.get("solver") == 4) or (
        model is not None and model.solver == "MCSVM_CS"
    ):
        columns = 1  # one problem of all classes
    several = validating or grid or (is_number(columns) and columns > 1)
    text = facts.certificate_text(
        found.get("primal"), found.get("dual"), found.get("gap"), bool(several)
    )
    unwritten = ""
    outer = found.get("outer")  # of the history, not of a model that was there before
    if history is not None and is_number(outer) and not (validating or history.has_ended):
        unwritten = _text(f"This is outer iteration {outer:,}: no model is written yet.", "soft")
    return _section("Certificate", _text(text), unwritten)


def _course(history: RunRecords, pictures: Pictures) -> str:
    if not history.events:
        return _section("Course of the run", _text("No outer iteration has ended yet."))
    note = _text(
        "Filled marks are proven gaps, others are estimates. The dashed line is the gap to reach.",
        "soft",
    )
    figures = _figures(pictures.of_run(history))
    return _section("Course of the run", note + figures if figures else "")


def _time(history: RunRecords) -> str:
    spent = facts.times(history)
    total = sum(spent.values())
    if total <= 0.0:
        return ""
    colours = {name: f"var(--series-{k})" for k, name in enumerate(facts.PHASE_NAMES)}
    colours["other_s"] = "var(--line)"
    bar = "".join(
        f'<div style="width:{100 * seconds / total:.2f}%;background:{colours[name]}"></div>'
        for name, seconds in spent.items()
    )
    rows = [
        (facts.PHASE_NAMES[name], facts.seconds_text(seconds), f"{100 * seconds / total:.1f} %")
        for name, seconds in spent.items()
    ]
    rows.append(("all", facts.seconds_text(total), "100 %"))
    listed = table("", ["", "time", "share"], rows, len(rows) - 1, numbers=(1, 2))
    for name in spent:  # a mark of the colour in the bar before each name
        title = escaped(facts.PHASE_NAMES[name])
        mark = f'<span class="key" style="background:{colours[name]}"></span>'
        listed = listed.replace(f"<td>{title}</td>", f"<td>{mark}{title}</td>", 1)
    loading = sum(e["load_s"] for e in history.events if is_number(e.get("load_s")))
    note = ""
    if loading > 0.0:  # 0 where all blocks were decoded before, as for the folds
        note = _text(
            f"Reading and decoding blocks took {facts.seconds_text(loading)} in a thread of its "
            "own, at the same time.",
            "soft",
        )
    memory = {}
    if history.peak_bytes:
        memory["largest resident memory"] = facts.size_text(history.peak_bytes)
    anonymous = [e["rss_bytes"] for e in history.events if is_number(e.get("rss_bytes"))]
    if anonymous:
        memory["of it anonymous, at most"] = facts.size_text(max(anonymous))
    if is_number(history.options.get("memory_bytes")):
        memory["budget"] = facts.size_text(history.options["memory_bytes"])
    read = sum(e["bytes_read"] for e in history.events if is_number(e.get("bytes_read")))
    memory["read in outer iterations"] = facts.size_text(read)
    return _section(
        "Time and memory",
        f'<div class="bar" aria-hidden="true">{bar}</div>',
        _columns(listed + note, facts_table("", memory)),
    )


def _validation(history: RunRecords, pictures: Pictures) -> str:
    found = history.validated
    if found is None or not _is_validation(found):
        return ""
    costs = found["costs"]
    metrics = [name for name in costs[0]["mean"] if name != "rows"]
    metrics.sort(key=lambda name: name != found["metric"])
    first = costs[:_MOST_COSTS]
    best = next((k for k, cost in enumerate(first) if cost["C"] == found["best_C"]), None)
    rows = [
        [
            format_number(cost["C"]),
            *(_spread(cost["mean"].get(n), cost["spread"].get(n)) for n in metrics),
            _short(cost.get("gap")),
        ]
        for cost in first
    ]
    header = ["C", *(METRIC_NAMES.get(name, name) for name in metrics), "largest gap"]
    title = (
        f"{facts.number_text(found.get('folds'))} folds of {facts.number_text(found.get('rows'))} "
        f"rows. The best C by {METRIC_NAMES.get(found['metric'], found['metric'])} is "
        f"{format_number(found['best_C'])}."
    )
    if found.get("positive") is not None:
        title += f" The positive class is {label_text(found['positive'])}."
    return _section(
        "Cross-validation",
        _text(title),
        _scroll(table("", header, rows, best, numbers=range(len(header)))),
        _text("Mean ± standard deviation over the folds.", "soft"),
        _figures(pictures.of_costs(found, metrics)),
    )


def _is_validation(found: Mapping[str, Any]) -> bool:
    """Return whether a line of a log has what the page needs."""
    costs = found.get("costs")
    return (
        isinstance(costs, list)
        and bool(costs)
        and is_number(found.get("best_C"))
        and isinstance(found.get("metric"), str)
        and all(
            isinstance(cost, dict)
            and is_number(cost.get("C"))
            and isinstance(cost.get("folds"), list)
            and isinstance(cost.get("mean"), dict)
            and isinstance(cost.get("spread"), dict)
            for cost in costs
        )
    )


def _short(value: object) -> str:
    return f"{value:.2g}" if is_number(value) else facts.NONE


def _spread(mean: object, spread: object) -> str:
    """Return a mean with its spread, both to the second digit of the spread."""
    if not (is_number(mean) and is_number(spread)):
        return facts.number_text(mean)
    digits = 1 - math.floor(math.log10(spread)) if spread > 0 else 6
    if not 0 <= digits <= 12:
        return f"{mean:.6g} ± {spread:.2g}"
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"


def _evaluation(found: Evaluation, test: Sequence[Path], pictures: Pictures) -> str:
    lines = {"rows": facts.number_text(found.rows)}
    if found.unlabelled:
        lines["rows without a target"] = facts.number_text(found.unlabelled)
    score = found.score.as_dict()
    for name, value in score.items():
        if name != "rows":
            lines[name.replace("_", " ")] = facts.number_text(value)
    parts = []
    if found.confusion is not None:
        lines["F1"] = found.confusion.summary().removeprefix("F1 = ")
        if found.unknown_labels:
            lines["rows of unknown classes"] = facts.number_text(found.unknown_labels)
        if found.curves_are_kept:
            roc, average = found.roc(), found.precision_recall()
            if len(roc) == 1:
                lines["area under the ROC curve"] = _finite(roc[0].area)
                lines["average precision"] = _finite(average[0].area)
            if found.is_logistic:
                lines["calibration error"] = _finite(found.calibration().error)
        parts.append(_classes_of(found))
    names = ", ".join(os.path.basename(shown_name(path)) for path in test)
    title = f"On the rows of {facts.shortened(names)}" if names else "On test rows"
    return _section(
        title,
        _columns(facts_table("", lines), *parts),
        _figures(pictures.of_evaluation(found)),
    )


def _finite(value: float) -> str:
    return facts.number_text(value if is_number(value) else None)


def _classes_of(found: Evaluation) -> str:
    """Return precision and recall of the classes; of many the pairs that are most confused."""
    assert found.confusion is not None
    _, labels, names = found.matrix()
    rows = [
        (facts.shortened(name, _LONGEST_NAME), *rest)
        for name, *rest in found.confusion.class_rows(_MOST_CLASSES)
    ]
    parts = _scroll(table("", CLASS_HEADER, rows, numbers=range(1, 5)))
    if len(names) > _MOST_CLASSES:
        parts += _text(
            f"The {_MOST_CLASSES} classes with the most rows, of {len(names):,}.", "soft"
        )
    if len(names) > MOST_IN_MATRIX:
        counts = found.confusion.as_dict()["confusion"]
        wrong = sorted((c for c in counts if c[0] != c[1]), key=lambda c: -c[2])[:_MOST_PAIRS]
        pairs = [
            (
                facts.shortened(labels[-1] if label is None else label_text(label), _LONGEST_NAME),
                facts.shortened(label_text(predicted), _LONGEST_NAME),
                facts.number_text(n),
            )
            for label, predicted, n in wrong
        ]
        header = ["class", "predicted as", "rows"]
        parts += _scroll(table("Most confused", header, pairs, numbers=(2,)))
    return parts


def _weights(model: LinearModel, names: Names | None, pictures: Pictures) -> str:
    """Return the largest weights: a figure of one column, a table of the classes otherwise."""
    outcomes = model.outcome_names
    if model.n_columns == 1:
        found = model.top_weights(_MOST_WEIGHTS, names=names)
        if not found:
            return _section("Largest weights", _text("All weights are 0."))
        rows = [(facts.shortened(name, _LONGEST_NAME), f"{w:.6g}") for name, w in found]
        meaning = "Weights above 0 raise the decision value"
        if outcomes:
            first = facts.shortened(outcomes[0], _LONGEST_NAME)
            meaning = f"Weights above 0 are for class {first}"
        if len(outcomes) == 2:
            meaning += f", below 0 for class {facts.shortened(outcomes[1], _LONGEST_NAME)}"
        listed = _scroll(table("", ["feature", "weight"], rows, numbers=(1,)))
        figures = pictures.of_weights(model, names, _MOST_WEIGHTS)
        if figures:
            listed = _details("as numbers", listed)
        return _section("Largest weights", _text(f"{meaning}."), _figures(figures), listed)
    tables = []
    for name, label in zip(outcomes[:_MOST_CLASSES], model.given_outcomes, strict=False):
        found = model.top_weights(_WEIGHTS_OF_A_CLASS, label, names)
        rows = [(facts.shortened(feature, _LONGEST_NAME), f"{w:.4g}") for feature, w in found]
        title = facts.shortened(name, _LONGEST_NAME)
        tables.append(f"<div>{table(title, ['feature', 'weight'], rows, numbers=(1,))}</div>")
    more = ""
    if len(outcomes) > _MOST_CLASSES:
        more = _text(f"The first {_MOST_CLASSES} of {len(outcomes):,} classes.", "soft")
    note = _text(f"The {_WEIGHTS_OF_A_CLASS} largest of each class; above 0 they are for it.")
    return _section("Largest weights", note, _figures(tables), more)


def _data(history: RunRecords | None, model: LinearModel | None) -> str:
    parts = []
    store = history.store if history is not None else {}
    if store:
        parts.append(facts_table("Data", facts.store_facts(store)) + _class_rows(store))
    if history is not None and history.options:
        settings = facts.settings(history.options)
        if _validates(history):  # what was compared is in its table, and the option counts for none
            settings.pop("C", None)
        if history.warm_start is not None or history.options.get("warm_start"):
            settings["warm start"] = facts.warm_start_text(history.warm_start)
        parts.append(facts_table("Settings", settings))
    if model is not None:
        parts.append(facts_table("Model", model.facts()))
        meta = model.metadata
        made = {
            "outer iterations": facts.number_text(meta.get("outer_iterations")),
            "ended": facts.shortened(str(meta.get("stopped", facts.NONE))),
            "trained by version": facts.shortened(str(meta.get("written_by", facts.NONE))),
            "data": facts.shortened(str(meta.get("store", facts.NONE)), 40),
        }
        if history is None and "outer_iterations" in meta:
            parts.append(facts_table("Training", made))
    return _section("Data and settings", _columns(*parts)) if parts else ""


def _class_rows(store: Mapping[str, Any]) -> str:
    labels = [found for found in _list(store.get("labels")) if isinstance(found, dict)]
    if not labels:
        return ""
    largest = labels[:_MOST_CLASSES]
    total = store.get("rows")
    rows = [
        (
            facts.shortened(_label(found.get("label")), _LONGEST_NAME),
            facts.number_text(found.get("rows")),
            _share(found.get("rows"), total),
        )
        for found in largest
    ]
    listed = _scroll(table("", ["class", "rows", "share"], rows, numbers=(1, 2)))
    n_classes = store.get("classes")
    if is_number(n_classes) and n_classes > len(largest):
        listed += _text(f"The {len(largest)} classes with the most rows, of {n_classes:,}.", "soft")
    return listed


def _share(part: object, whole: object) -> str:
    if not (is_number(part) and is_number(whole) and whole):
        return facts.NONE
    return f"{100 * part / whole:.1f} %"


def _label(label: object) -> str:
    return label_text(label) if isinstance(label, str | int | float) else facts.NONE


def _warnings(history: RunRecords) -> str:
    found = history.warnings[-_MOST_WARNINGS:]
    if not found:
        return ""
    items = "".join(f"<li>{escaped(facts.shortened(text, 500))}</li>" for text in found)
    hidden = len(history.warnings) - len(found)
    earlier = counted(hidden, "earlier one is", "earlier ones are")
    more = _text(f"{earlier} left out.", "soft") if hidden else ""
    return _section("Warnings", f"<ul>{items}</ul>", more)


def _iterations(history: RunRecords) -> str:
    events = history.events
    if not events:
        return ""
    chosen = events if len(events) <= _MOST_LINES else [*events[:5], *events[5 - _MOST_LINES :]]
    header = ["outer", "time", "primal", "dual", "gap", "proven", "support vectors", "read"]
    rows = [_iteration(event) for event in chosen]
    listed = _scroll(table("", header, rows, numbers=(0, 1, 2, 3, 4, 6, 7)))
    if len(chosen) < len(events):
        listed += _text(f"The first 5 and the last {_MOST_LINES - 5} of {len(events):,}.", "soft")
    title = counted(len(events), "outer iteration", form=",")
    return _section("Outer iterations", _details(title, listed))


def _iteration(event: Mapping[str, Any]) -> Sequence[str]:
    def number(name: str, form: str) -> str:
        value = event.get(name)
        return format(value, form) if is_number(value) else facts.NONE

    read = event.get("bytes_read")
    return (
        number("outer", ","), number("seconds", ".2f"), number("primal", ".9g"),
        number("dual", ".9g"), number("gap", ".2e"), "yes" if event.get("certified") else "no",
        number("n_sv", ","), facts.size_text(read) if is_number(read) else facts.NONE,
    )  # fmt: skip
