"""What a caller may ask for: frozen dataclasses, checked once."""

import math
import os
import re
from dataclasses import dataclass, field
from typing import Any

from blocklinear.errors import UsageError
from blocklinear.memory import default_budget


def _check(name: str, value: Any, holds: bool, rule: str) -> None:
    if not holds:
        raise UsageError(f"{name} is {value!r}, but must be {rule}")


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class TextOptions:
    """How LIBSVM text is read.

    Attributes
    ----------
    index_base : {1, 0, "auto"}
        Smallest feature index; ``"auto"`` is 0 if an index 0 occurs anywhere, else 1, which is
        known only at the end. It does not matter when features are hashed.
    threads : int
        Worker threads; the result does not depend on it.
    memory_bytes : int
        Budget of the whole process.
    on_error : {"fail", "skip"}
        What a refused line does.
    max_errors : int
        With ``skip``, how many refused lines are too many less one.
    require_final_newline : bool
        Refuse a text file whose last line has no newline, since it may be cut short.
    unsorted : {"fail", "sort"}
        What is done with a row whose indices are not increasing.
    duplicates : {"fail", "sum"}
        What is done with an index that is repeated in a row.
    hash_bits : int
        Replace every index by a hash of so many bits, 1 to 31, which makes 2**hash_bits features;
        entries of a row whose features collide are added up. 0 for none.
    """

    index_base: int | str = 1
    threads: int = field(default_factory=_cpus)
    memory_bytes: int = field(default_factory=default_budget)
    on_error: str = "fail"
    max_errors: int = 1000
    require_final_newline: bool = False
    unsorted: str = "fail"
    duplicates: str = "fail"
    hash_bits: int = 0

    def __post_init__(self) -> None:
        _check("index base", self.index_base, self.index_base in (0, 1, "auto"), "0, 1 or 'auto'")
        _check("threads", self.threads, 1 <= self.threads <= 256, "from 1 to 256")
        _check("memory", self.memory_bytes, self.memory_bytes >= 1 << 20, "at least 1M")
        _check("on-error", self.on_error, self.on_error in ("fail", "skip"), "'fail' or 'skip'")
        _check("max-errors", self.max_errors, self.max_errors >= 0, "at least 0")
        _check("unsorted", self.unsorted, self.unsorted in ("fail", "sort"), "'fail' or 'sort'")
        _check("duplicates", self.duplicates, self.duplicates in ("fail", "sum"), "'fail' or 'sum'")
        _check("hash-bits", self.hash_bits, 0 <= self.hash_bits <= 31, "from 1 to 31, or 0")

    @property
    def smallest_index(self) -> int:
        """Smallest index that is not refused."""
        return 1 if self.index_base == 1 and not self.hash_bits else 0

    @property
    def seeks_base(self) -> bool:
        """Whether the index base is to be found."""
        return self.index_base == "auto" and not self.hash_bits

    @property
    def max_line_bytes(self) -> int:
        """Longest line accepted: 64 MiB, less under a small budget."""
        return min(64 << 20, max(1 << 20, self.memory_bytes // 8))

    @property
    def slab_bytes(self) -> int:
        """Size of the pieces parsed in parallel; each holds about three times that in memory."""
        return min(4 << 20, max(64 << 10, self.memory_bytes // (16 * (self.threads + 2))))


@dataclass(frozen=True)
class SplitOptions:
    """How text becomes blocks.

    Attributes
    ----------
    text : TextOptions
        How the text is read; its memory budget and threads are those of the whole split.
    blocks : int or None
        Number of blocks; None derives it from the memory budget.
    seed : int
        Of the random assignment of rows to blocks.
    order : {"random", "file"}
        Assign rows at random (Yu, Algorithm 4) or in input order.
    dtype : {"float64", "float32"}
        What values are rounded to when read; float64 is exact.
    compression : str
        ``none``, ``zstd`` or ``zstd:LEVEL``.
    normalize : {"none", "l2"}
        With ``l2``, each row is divided by its Euclidean norm when it is read from the store.
    force : bool
        Replace an existing store.
    """

    text: TextOptions = field(default_factory=TextOptions)
    blocks: int | None = None
    seed: int = 0
    order: str = "random"
    dtype: str = "float64"
    compression: str = "zstd:1"
    normalize: str = "none"
    force: bool = False

    def __post_init__(self) -> None:
        blocks = self.blocks
        _check("blocks", blocks, blocks is None or 1 <= blocks <= 99_999, "from 1 to 99999")
        _check("seed", self.seed, 0 <= self.seed < 1 << 63, "from 0 to 2**63 - 1")
        _check("order", self.order, self.order in ("random", "file"), "'random' or 'file'")
        _check("dtype", self.dtype, self.dtype in ("float64", "float32"), "float64 or float32")
        _check("normalize", self.normalize, self.normalize in ("none", "l2"), "'none' or 'l2'")


@dataclass(frozen=True)
class TrainOptions:
    """What is trained, and until when.

    Attributes
    ----------
    solver : {1, 3}
        LIBLINEAR's number: 1 squared hinge, 3 hinge loss.
    cost : float
        C > 0.
    class_weights : tuple of (label, weight)
        Multiply C for rows of a class.
    bias : float
        Value of the implicit bias feature; negative for none. Its weight is regularised.
    gap : float or None
        Stop when the certified relative duality gap (P - D) / P is at most this.
    tolerance : float or None
        Stop when the violation is at most this (LIBLINEAR's ``-e``). Where both are given both must
        hold; with neither, `gap` is 0.001.
    max_outer : int
        Stop after so many outer iterations.
    time_limit_s : float
        Stop after the outer iteration that passes this many seconds.
    epochs : int
        Epochs a visit (Yu's BLOCK-L-N).
    group : int or None
        Blocks a visit; None takes as many as the memory budget holds. 1 is Yu's original.
    seed : int
    threads : int
        Threads that read and decode; the result does not depend on it.
    memory_bytes : int
        Budget of the whole process.
    run : str
        Name of the run, the folder in the store that holds alpha.
    """

    solver: int = 3
    cost: float = 1.0
    class_weights: tuple[tuple[float, float], ...] = ()
    bias: float = -1.0
    gap: float | None = None
    tolerance: float | None = None
    max_outer: int = 1_000_000
    time_limit_s: float = math.inf
    epochs: int = 1
    group: int | None = None
    seed: int = 0
    threads: int = field(default_factory=_cpus)
    memory_bytes: int = field(default_factory=default_budget)
    run: str = "default"

    def __post_init__(self) -> None:
        finite = math.isfinite
        _check("solver", self.solver, self.solver in (1, 3), "1 or 3")
        _check("C", self.cost, finite(self.cost) and self.cost > 0, "finite and above 0")
        for label, weight in self.class_weights:
            name = f"weight of class {label:g}"
            _check(name, weight, finite(weight) and weight > 0, "finite and above 0")
        _check("bias", self.bias, finite(self.bias), "finite")
        if self.gap is None and self.tolerance is None:
            object.__setattr__(self, "gap", 0.001)
        for name, limit in (("gap", self.gap), ("tolerance", self.tolerance)):
            _check(name, limit, limit is None or (finite(limit) and limit > 0), "above 0")
        provable = self.gap is None or self.gap >= 1e-12
        _check("gap", self.gap, provable, "at least 1e-12: rounding hides what is smaller")
        _check("max-outer", self.max_outer, self.max_outer >= 1, "at least 1")
        _check("time-limit", self.time_limit_s, self.time_limit_s > 0, "above 0")
        _check("epochs", self.epochs, 1 <= self.epochs <= 10_000, "from 1 to 10000")
        _check("group", self.group, self.group is None or self.group >= 1, "at least 1")
        _check("seed", self.seed, 0 <= self.seed < 1 << 63, "from 0 to 2**63 - 1")
        _check("threads", self.threads, 1 <= self.threads <= 256, "from 1 to 256")
        _check("memory", self.memory_bytes, self.memory_bytes >= 1 << 20, "at least 1M")
        plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", self.run) is not None
        _check("run", self.run, plain, "a plain name of letters, digits, dots and dashes")
