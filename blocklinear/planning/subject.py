"""What there is to say of text or of a store before anything is trained."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blocklinear.errors import InputError, InputFormatError, MemoryBudgetError, storage_errors
from blocklinear.ingest.ingest import no_rows
from blocklinear.ingest.split import split
from blocklinear.ingest.writer import decoded_bytes, make_plan
from blocklinear.inputs.urls import is_url, shown_name
from blocklinear.memory import available_bytes, spare_bytes
from blocklinear.options import SplitOptions, TrainOptions
from blocklinear.planning.growth import Range
from blocklinear.planning.machine import Machine
from blocklinear.planning.sample import blocks_like, growth_of, sample_store, sample_text
from blocklinear.planning.splits import SplitTrials
from blocklinear.store.manifest import Manifest
from blocklinear.store.store import BlockStore

SAMPLE_BYTES, SAMPLE_ENTRIES = 48 << 20, 4_000_000
_SAMPLE_BLOCKS = 16
_STANDARD_ERRORS = 3.0  # from the likely number of rows to the ends of its range
_SPLIT_ERROR, _BYTES_ERROR = 1.25, 1.05
_TABLE_BYTES = 16
"""Of a feature in the table of feature numbers that a split looks entries up in."""
LOOKUP_SHARE = 0.2
"""What an entry takes, of the time that was measured for a lookup at random in all weights:
frequent features have the first numbers, and most entries are theirs. 201 million a
second on blog.svm, with 1.6 million features."""
_MORE_INDICES = 1.02
"""By what factor the largest index may be larger than that in a sample from all over a file."""


@dataclass(frozen=True)
class PlanData:
    """What was found of the data, with a sample of it."""

    sample: BlockStore
    as_split: BlockStore  # the same rows in blocks as large as those of a split of all rows
    manifest_for: Callable[[int], Manifest]  # a manifest as that of all rows, split with a budget
    facts: dict[str, Any]  # `PlanReport.sample`
    rows: Range
    features: Range
    entries: Range
    store_bytes: Range
    split_s: Range | None
    input_bytes: int  # that are read once
    from_url: bool
    fetching_bytes: int  # of memory, while blocks of a store on a URL are read
    notes: list[str]


def of_text(
    inputs: Sequence[Path | str | os.PathLike[str]],
    train: TrainOptions,
    options: SplitOptions,
    machine: Machine,
    folder: Path,
) -> PlanData:
    """Split a sample of text in an empty folder, and extrapolate.

    UsageError, InputError and StorageError are raised as by `sample_text` and `split`.
    """
    text = replace(options.text, memory_bytes=train.memory_bytes, threads=train.threads)
    options = replace(options, text=text, force=True)
    most = min(SAMPLE_BYTES, max(spare_bytes(text.memory_bytes), 1 << 20))
    sample = sample_text(inputs, text, most, folder / "sample.svm")
    blocks = min(_SAMPLE_BLOCKS, sample.rows)
    try:
        store = split(sample.path, folder / "store", replace(options, blocks=blocks))
    except InputError as found:
        raise _of_inputs(found, inputs, sample.whole) from None
    m = store.manifest
    _refuse_empty(m)
    trials = SplitTrials.run(sample, options, folder)
    error = _STANDARD_ERRORS * sample.row_error
    rows = Range(1 - error, 1.0, 1 + error).times(m.n_rows * sample.times).at_least(m.n_rows)
    entries = rows.times(m.nnz / m.n_rows)
    growth = growth_of(store)
    features = growth.features(rows.likely)
    if options.text.hash_bits or sample.spread:  # the largest index is known then, about
        features = features.at_most(_MORE_INDICES * m.dimension)
    block_bytes = entries.times(trials.entry_bytes(sample.times, growth.exponent))
    least, size = (
        n_bytes + trials.feature_bytes(n)
        for n_bytes, n in ((block_bytes.low, features.low), (block_bytes.likely, features.likely))
    )
    error = 1.0 if sample.whole else _BYTES_ERROR
    notes = []
    if not sample.whole:
        notes.append(
            f"features grow as rows^{growth.exponent:.2f} at the end of the sample (Heaps' law), "
            "and less and less"
        )
    with storage_errors(sample.path, "read"), sample.path.open("rb") as lines:
        longest = max(map(len, lines))
    lookup_ns = machine.lookup(_TABLE_BYTES * features.likely)
    more_ns = LOOKUP_SHARE * max(lookup_ns - machine.lookup(_TABLE_BYTES * m.n_features), 0.0)
    split_s = trials.seconds(sample.total_bytes) + more_ns * 1e-9 * entries.likely / text.threads
    split_s = max(split_s, size / machine.write_bytes_s)
    if sample.input_bytes > available_bytes():
        split_s = max(split_s, sample.input_bytes / machine.read_bytes_s)
    whole = replace(
        m,
        n_rows=round(rows.likely),
        nnz=round(entries.likely),
        n_features=round(features.likely),
        dimension=max(m.dimension, round(features.likely)),
        blocks=[replace(m.blocks[0], bytes=round(size))],
    )
    return PlanData(
        sample=store,
        as_split=trials.store or store,
        manifest_for=lambda memory_bytes: _in_blocks(whole, options, longest, memory_bytes),
        facts={"rows": m.n_rows, "bytes": sample.bytes, "share": 1.0 / sample.times},
        rows=rows,
        features=features,
        entries=entries,
        store_bytes=Range(least / error, size, size * error * rows.high / rows.likely),
        split_s=Range(split_s / _SPLIT_ERROR, split_s, split_s * _SPLIT_ERROR),
        input_bytes=sample.input_bytes,
        from_url=any(is_url(path) for path in inputs),
        fetching_bytes=0,
        notes=notes,
    )


def _refuse_empty(manifest: Manifest) -> None:
    if not manifest.nnz:
        raise InputError("no row has a feature: there is nothing to estimate", "check the input")


def _of_inputs(
    error: InputError, inputs: Sequence[Path | str | os.PathLike[str]], whole: bool
) -> InputError:
    """Return what is wrong with a sample, which has no rows or a bad line, as of the inputs."""
    names = [shown_name(os.fspath(name)) for name in inputs]
    if not isinstance(error, InputFormatError):
        return no_rows(names)
    if whole and len(names) == 1:
        return InputFormatError(names[0], error.line, error.column, error.problem, error.fix)
    return InputError(
        f"{', '.join(names)}: a line of a sample cannot be read: {error.problem}",
        f"{error.fix}; `blocklinear check` says which line it is",
    )


def _in_blocks(whole: Manifest, options: SplitOptions, longest: int, memory_bytes: int) -> Manifest:
    """Return a manifest of the same totals in as many blocks as a split with a budget makes.

    MemoryBudgetError is raised if that refuses lines of `longest` bytes.
    """
    text = replace(options.text, memory_bytes=memory_bytes)
    if longest > text.line_limit:
        raise MemoryBudgetError(f"lines of {longest} bytes are refused", "give a larger --memory")
    plan = make_plan(replace(options, text=text))
    n_blocks = options.blocks or _SAMPLE_BLOCKS
    if options.blocks is None and plan.block_bytes:
        n_blocks = math.ceil(decoded_bytes(whole.n_rows, whole.nnz) / plan.block_bytes)
    return blocks_like(whole, max(min(n_blocks, whole.n_rows), 1))


def of_store(store: BlockStore, folder: Path) -> PlanData:
    """Copy some blocks of a store, of which all but the times is known.

    InputError is raised if it has no entry. Raises DamagedError and StorageError, too.
    """
    m = store.manifest
    _refuse_empty(m)
    sample = sample_store(store, SAMPLE_ENTRIES, folder / "store")
    size = sum(block.bytes for block in m.blocks) + sum(file.bytes for file in m.features)
    part = sample.manifest
    share = part.n_rows / max(m.n_rows, 1)
    return PlanData(
        sample=sample,
        as_split=sample,
        manifest_for=lambda memory_bytes: m,
        facts={"rows": part.n_rows, "blocks": len(part.blocks), "share": share},
        rows=Range.exactly(m.n_rows),
        features=Range.exactly(m.n_features),
        entries=Range.exactly(m.nnz),
        store_bytes=Range.exactly(size),
        split_s=None,
        input_bytes=0,
        from_url=store.mirror is not None,
        fetching_bytes=store.fetching_bytes,
        notes=[],
    )
