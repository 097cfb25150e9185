"""Splits of parts of a sample, and what they say of a split of all."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from blocklinear.ingest.split import split
from blocklinear.options import SplitOptions
from blocklinear.planning.sample import TextSample
from blocklinear.store.store import BlockStore

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


@dataclass(frozen=True)
class SplitTrials:
    """Splits of a sixteenth, a half and all of a sample, with the options asked for.

    Attributes
    ----------
    few, half, whole : SplitTrial
    store : BlockStore or None      of all of the sample
    """

    few: SplitTrial
    half: SplitTrial
    whole: SplitTrial
    store: BlockStore | None = None

    @classmethod
    def run(cls, sample: TextSample, options: SplitOptions, place: Path) -> Self:
        """Split the parts, each three times; the least seconds count."""
        text = sample.path.read_bytes()
        trials = []
        for share in (16, 2, 1):
            stop = len(text) if share == 1 else text.find(b"\n", len(text) // share) + 1
            part = place / "part.svm"
            part.write_bytes(text[: stop or len(text)])
            best = math.inf
            for _ in range(3):
                started = time.perf_counter()
                store = split(part, place / "timed", options)
                best = min(best, time.perf_counter() - started)
            m = store.manifest
            trials.append(SplitTrial(
                part.stat().st_size, best, m.nnz, sum(block.bytes for block in m.blocks),
                m.n_features, sum(file.bytes for file in m.features),
            ))  # fmt: skip
        few, half, whole = trials
        return cls(few, half, whole, store)

    def seconds(self, text_bytes: float) -> float:
        """Return the seconds of a split of so many bytes: what starting takes, and as many a byte.

        Half of the time of the largest split at least is taken to be for its bytes.
        """
        few, most = self.few, self.whole
        more = max(most.text_bytes - few.text_bytes, 1)
        a_byte = max((most.seconds - few.seconds) / more, 0.5 * most.seconds / most.text_bytes)
        fixed = max(most.seconds - a_byte * most.text_bytes, 0.0)
        return fixed + a_byte * text_bytes

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
