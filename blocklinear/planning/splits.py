"""Splits of parts of a sample, and what they say of a split of all."""

import math
import time
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Self

from blocklinear.errors import InputError, storage_errors
from blocklinear.ingest.split import split
from blocklinear.options import SplitOptions
from blocklinear.planning.sample import TextSample
from blocklinear.store.store import BlockStore

_REPEATS = 5
_LEAST_SHARE, _MOST_SHARE = 0.5, 2.0
_BYTES_A_DOUBLING = 0.1
"""Bytes of an entry that a doubling of the rows adds, times the exponent of Heaps' law: 0.07 on
blog.svm and 0.10 on generated text, from 67 MB on."""


@dataclass(frozen=True)
class SplitTrial:
    """A split of a part of a sample: bytes of text, seconds, and what the store has."""

    text_bytes: int
    seconds: float
    nnz: int
    block_bytes: int
    features: int
    feature_bytes: int


_seconds = attrgetter("seconds")


@dataclass(frozen=True)
class SplitTrials:
    """Splits of a half and all of a sample, with the options asked for."""

    half: SplitTrial
    whole: SplitTrial
    store: BlockStore | None = None  # of all of the sample

    @classmethod
    def run(cls, sample: TextSample, options: SplitOptions, place: Path) -> Self:
        """Split both in turn, `_REPEATS` times; the least seconds count.

        All of the sample, which can be split, stands in for a half without entries.
        """
        text = sample.path.read_bytes()
        stops = (text.find(b"\n", len(text) // 2) + 1 or len(text), len(text))
        parts = [place / "half.svm", place / "whole.svm"]
        for part, stop in zip(parts, stops, strict=True):
            with storage_errors(part, "write"):
                part.write_bytes(text[:stop])
        del text
        trials: tuple[list[SplitTrial], list[SplitTrial]] = ([], [])
        for k in [0, 1] * _REPEATS:
            started = time.perf_counter()
            try:
                store = split(parts[k], place / "timed", options)
            except InputError:  # the half has no rows
                continue
            seconds, m = time.perf_counter() - started, store.manifest
            trials[k].append(
                SplitTrial(
                    stops[k], seconds, m.nnz, sum(block.bytes for block in m.blocks),
                    m.n_features, sum(file.bytes for file in m.features),
                )
            )  # fmt: skip
        whole = min(trials[1], key=_seconds)
        half = min((trial for trial in trials[0] if trial.nnz), key=_seconds, default=whole)
        return cls(half, whole, store)

    def seconds(self, text_bytes: float) -> float:
        """Return the seconds of a split of so many bytes.

        Each takes what those of the second half of the sample did, and `_LEAST_SHARE` to
        `_MOST_SHARE` of the mean: where a long line leaves little to the second half, its seconds
        say nothing. To begin takes longer: threads wait for the first rows, and most features are
        new.
        """
        half, whole = self.half, self.whole
        more = max(whole.text_bytes - half.text_bytes, 1)
        mean = whole.seconds / whole.text_bytes
        second = (whole.seconds - half.seconds) / more
        a_byte = min(max(second, _LEAST_SHARE * mean), _MOST_SHARE * mean)
        return whole.seconds + a_byte * (text_bytes - whole.text_bytes)

    def entry_bytes(self, times: float, exponent: float) -> float:
        """Return the bytes of an entry in the blocks of `times` as many rows.

        They grow with each doubling of the rows as they did by the last one, and by
        `_BYTES_A_DOUBLING` times the exponent of Heaps' law at least: numbers of features get
        larger.
        """
        half, whole = (trial.block_bytes / trial.nnz for trial in (self.half, self.whole))
        a_doubling = max(whole - half, _BYTES_A_DOUBLING * exponent)
        return whole + a_doubling * math.log2(max(times, 1.0))

    def feature_bytes(self, features: float) -> float:
        """Return the bytes of the list of so many features.

        New ones take as many as those of the last doubling of the rows did.
        """
        half, whole = self.half, self.whole
        more = max(whole.features - half.features, 1)
        each = max(whole.feature_bytes - half.feature_bytes, 0) / more
        return whole.feature_bytes + each * max(features - whole.features, 0.0)
