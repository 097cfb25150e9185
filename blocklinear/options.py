"""Options of the public functions: frozen dataclasses, checked when they are made."""

import math
import os
import re
from dataclasses import dataclass, field, fields, replace
from typing import Any

from blocklinear.arguments import Default, check_types, shown_value
from blocklinear.errors import MemoryBudgetError, UsageError
from blocklinear.keywords import with_aliases
from blocklinear.memory import WEIGHT_VECTORS, default_budget, spare_bytes
from blocklinear.numerals import format_number
from blocklinear.solver_types import CRAMMER_SINGER, ONE_CLASS, SOLVER_TYPES

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PLAIN = (
    "a plain name of at most 64 letters, digits, dots, dashes and underscores that begins with a "
    "letter or digit"
)
_LEAST_SLAB_BYTES = 64 << 10
MOST_THREADS = 256
BIAS_BOUND = 1e153
"""A bias is below it, as its square is added to a row's."""
SLAB_FACTOR = 10
"""A slab and its rows take at most so many times its text: rows of a label alone take 8.5."""
LINE_FACTOR = 2.5
"""So does a line of 1 MiB or more and its row: an entry takes 13 bytes, and is written in 8 or more
where indices increase, since most of them have many digits then."""
_GAP, _LEAST_GAP = 1e-3, 1e-12  # by default; rounding hides what is smaller
_MOST_OUTER = 1000  # where more are needed, the data are badly scaled or C is too large
_MOST_PASSES = (
    10_000  # of Newton's method, most of which are products: of real data some take 3,000
)
_PEGASOS_OUTER = 50  # it converges sublinearly: small gaps are out of reach


def _check(name: str, value: Any, holds: bool, rule: str) -> None:
    if not holds:
        raise UsageError(f"{name} is {shown_value(value)}, but must be {rule}")


def _finite(value: float) -> bool:
    """Return whether `value` is a finite float64, or an integer that converts to one."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def _budget() -> int:
    return Default(default_budget())


@with_aliases
@dataclass(frozen=True)
class TextOptions:
    """How LIBSVM text is read.

    Attributes
    ----------
    index_base : {None, 1, 0, "auto"}
        Smallest feature index; None is that of the model or the store that the rows are read for,
        else 1. ``"auto"`` is 0 if an index 0 occurs anywhere, else 1, and needs files. It has no
        effect when features are hashed.
    base_of : str
        What determined the index base, such as "the model", for messages.
    threads : int
        Worker threads; the result does not depend on it.
    memory_bytes : int
        Memory budget of the whole process.
    on_error : {"fail", "skip"}
        Whether a malformed line, or a row of a table without a target, is an error or is left out.
    max_errors : int
        Largest number of lines or rows that may be left out.
    require_final_newline : bool
        Refuse a text file whose last line has no newline, since it may be truncated.
    unsorted : {"fail", "sort"}
        What to do with a row whose indices do not increase.
    duplicates : {"fail", "sum"}
        What to do with an index that is repeated in a row.
    hash_bits : int
        Replace every index by a hash of this many bits, 1 to 31, which makes 2**hash_bits features;
        entries of a row whose features collide are added. 0 for no hashing.
    ignore_qid : bool
        Ignore ``qid:N`` after a label instead of refusing the line.
    max_features : int or None
        Refuse the first index that makes more features. None is as many as training can hold the
        weights of in `memory_bytes`; unlimited where text is not trained on.
    max_line_bytes : int or None
        Refuse longer lines; from 64 KiB to a quarter of what `memory_bytes` leaves after 80 MiB
        for the program, or 1 MiB if that is more. None is 64 MiB, less under a small budget.
    max_decompressed : int or None
        Refuse a compressed input that holds more bytes of text.
    max_window : int or None
        Refuse a compressed input that needs more memory to decompress; at most a quarter of
        `memory_bytes`. None is 128 MiB, less under a small budget.
    expect_rows : int or None
        Refuse inputs with another number of rows in all, skipped ones included.
    expect_sha256 : str or None
        Refuse an input with another SHA-256; for a single input, compressed as it is.
    record_sha256 : bool
        Record the SHA-256 of each input in the store, in addition to its XXH64.
    """

    index_base: int | str | None = None
    base_of: str = ""
    threads: int = field(default_factory=_cpus)
    memory_bytes: int = field(default_factory=_budget)
    on_error: str = "fail"
    max_errors: int = 1000
    require_final_newline: bool = False
    unsorted: str = "fail"
    duplicates: str = "fail"
    hash_bits: int = 0
    ignore_qid: bool = False
    max_features: int | None = None
    max_line_bytes: int | None = None
    max_decompressed: int | None = None
    max_window: int | None = None
    expect_rows: int | None = None
    expect_sha256: str | None = None
    record_sha256: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        known = (None, 0, 1, "auto")
        _check("index base", self.index_base, self.index_base in known, "0, 1 or 'auto'")
        _check(
            "threads", self.threads, 1 <= self.threads <= MOST_THREADS, f"from 1 to {MOST_THREADS}"
        )
        _check("memory", self.memory_bytes, self.memory_bytes >= 1 << 20, "at least 1M")
        _check("on-error", self.on_error, self.on_error in ("fail", "skip"), "'fail' or 'skip'")
        _check("max-errors", self.max_errors, self.max_errors >= 0, "at least 0")
        _check("unsorted", self.unsorted, self.unsorted in ("fail", "sort"), "'fail' or 'sort'")
        _check("duplicates", self.duplicates, self.duplicates in ("fail", "sum"), "'fail' or 'sum'")
        _check("hash-bits", self.hash_bits, 0 <= self.hash_bits <= 31, "from 1 to 31, or 0")
        for name, least, most in (
            ("max-features", 1, None),
            ("max-line-bytes", _LEAST_SLAB_BYTES, self._most_line_bytes),
            ("max-decompressed", 1, None),
            ("max-window", 1 << 10, self.memory_bytes // 4),
            ("expect-rows", 0, None),
        ):
            limit = getattr(self, name.replace("-", "_"))
            _check(name, limit, limit is None or limit >= least, f"at least {least}")
            if limit is not None and most is not None and limit > most:
                raise MemoryBudgetError(
                    f"{name} is {limit}, more than the {most} bytes that --memory allows",
                    f"give a larger --memory, or a smaller --{name}",
                )
        digest = self.expect_sha256
        hexadecimal = digest is None or re.fullmatch(r"[0-9a-fA-F]{64}", digest) is not None
        _check("expect-sha256", digest, hexadecimal, "64 hexadecimal digits")

    @property
    def smallest_index(self) -> int:
        """Smallest index that is not refused."""
        return 1 if self.index_base in (None, 1) and not self.hash_bits else 0

    @property
    def takes_sha256(self) -> bool:
        """Whether the SHA-256 of inputs is worked out."""
        return self.record_sha256 or self.expect_sha256 is not None

    @property
    def seeks_base(self) -> bool:
        """Whether the index base is to be found."""
        return self.index_base == "auto" and not self.hash_bits

    @property
    def reading_bytes(self) -> int:
        """What text and the rows it becomes may take in memory, before they are stored."""
        return max(8 << 20, int(LINE_FACTOR * spare_bytes(self.memory_bytes)) // 4)

    @property
    def ahead_bytes(self) -> int:
        """What of `reading_bytes` may hold parts of a URL that were asked for."""
        return self.reading_bytes // 4

    @property
    def line_limit(self) -> int:
        """Longest line accepted, in bytes."""
        return self.max_line_bytes or min(64 << 20, self._most_line_bytes)

    @property
    def _most_line_bytes(self) -> int:
        return max(1 << 20, spare_bytes(self.memory_bytes) // 4)

    @property
    def window_limit(self) -> int:
        """What unpacking an input may take, in bytes."""
        return self.max_window or min(128 << 20, max(8 << 20, self.memory_bytes // 4))

    @property
    def feature_limit(self) -> int:
        """Features that an input to be trained on may have."""
        return self.max_features or self.memory_bytes // (8 * WEIGHT_VECTORS)

    @property
    def index_stop(self) -> int:
        """No index of an input to be trained on is as large."""
        if self.hash_bits:
            return 1 << self.hash_bits
        return min(self.feature_limit + 1, 1 << 32)

    @property
    def slab_bytes(self) -> int:
        """Size of the pieces parsed in parallel; `reading_bytes` holds all in flight."""
        wanted = self.reading_bytes // (SLAB_FACTOR * (self.threads + 2))
        return min(4 << 20, max(_LEAST_SLAB_BYTES, wanted), self.line_limit)


@with_aliases
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
        Seed of the random assignment of rows to blocks.
    order : {"random", "file"}
        Assign rows at random (Yu, Algorithm 4) or in input order.
    dtype : {"float64", "float32"}
        Precision of values in training; float64 is exact.
    compression : str
        ``none``, ``zstd`` or ``zstd:LEVEL``.
    normalize : {"none", "l2"}
        With ``l2``, each row is divided by its Euclidean norm when it is used.
    force : bool
        Replace an existing store.
    weights : str or None
        File with one number per line, the weight of each row, plain or compressed; ``-`` is
        standard input. A weight multiplies C of its row.
    batch : str
        Name of the batch, for `remove`.
    renumber : bool
        Number features in blocks by how often they occur in the first rows, for speed. Models and
        messages have the numbers of the input. Without it, earlier versions can read the store.
    """

    text: TextOptions = field(default_factory=TextOptions)
    blocks: int | None = None
    seed: int = 0
    order: str = "random"
    dtype: str = "float64"
    compression: str = "zstd:1"
    normalize: str = "none"
    force: bool = False
    weights: str | None = None
    batch: str = "b1"
    renumber: bool = True

    def __post_init__(self) -> None:
        check_types(self)
        check_batch_name(self.batch)
        blocks = self.blocks
        _check("blocks", blocks, blocks is None or 1 <= blocks <= 99_999, "from 1 to 99999")
        _check("seed", self.seed, 0 <= self.seed < 1 << 63, "from 0 to 2**63 - 1")
        _check("order", self.order, self.order in ("random", "file"), "'random' or 'file'")
        _check("dtype", self.dtype, self.dtype in ("float64", "float32"), "float64 or float32")
        _check("normalize", self.normalize, self.normalize in ("none", "l2"), "'none' or 'l2'")

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weights is not None


@with_aliases
@dataclass(frozen=True)
class AddOptions:
    """How text becomes a further batch of a store.

    Attributes
    ----------
    text : TextOptions
        How the text is read. Index base and hashing are those of the store.
    batch : str or None
        Name of the batch; None numbers it.
    blocks : int or None
        Number of its blocks; None makes them as large as those of the store.
    allow_duplicate : bool
        Add an input that the store already has, by size and digest.
    weights : str or None
        As in `SplitOptions`; required if the rows of the store have weights, else refused.
    if_absent : bool
        Do nothing if the store has a batch (of that name, if one is given) of exactly these
        inputs in this order, by size and digest, whatever their paths. Only some are refused.
    """

    text: TextOptions = field(default_factory=TextOptions)
    batch: str | None = None
    blocks: int | None = None
    allow_duplicate: bool = False
    weights: str | None = None
    if_absent: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        check_batch_name(self.batch)
        blocks = self.blocks
        _check("blocks", blocks, blocks is None or 1 <= blocks <= 99_999, "from 1 to 99999")


def check_batch_name(name: str | None) -> None:
    """Refuse a name that a batch may not have."""
    plain = name is None or _PLAIN_NAME.fullmatch(name) is not None
    _check("batch", name, plain, _PLAIN)


@with_aliases
@dataclass(frozen=True)
class TrainOptions:
    """What to train and when to stop.

    Attributes
    ----------
    solver : {0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 21}
        LIBLINEAR's number: 1 squared hinge, 3 hinge, 7 logistic loss, each class against the rest
        where there are more than two; 4 Crammer and Singer's multi-class hinge; regression: 12
        squared epsilon-insensitive, 13 epsilon-insensitive loss; 21 one-class SVM, whatever the
        labels. 0, 2 and 11 are the problems of 7, 1 and 12, solved by Newton's method on the
        primal where that is cheaper (see `method`). 5 and 6 have the losses of 1 and 7, and L1
        regularisation: the sum of the absolute weights, most of which are 0 then.
    l1_ratio : float
        Of solvers 5 and 6, above 0 and at most 1: weights cost l1_ratio times their absolute sum,
        plus (1 - l1_ratio) / 2 times their squared norm (the elastic net).
    method : {"dual", "pegasos", "newton", "auto"}
        Dual coordinate descent (Yu, Algorithm 2); Pegasos (Yu, Algorithm 3; hinge loss only); or
        Newton's method on the primal, which solvers 4 and 21 do not have: of 3 and 13 it takes
        steps to proximal points, and 5 and 6 have no other. With auto it follows from the data, of
        the solvers that have a smooth loss. By default 0, 2 and 11 have auto, unless a tolerance is
        given, which is of the gradient then; 5 and 6 newton; and the others dual.
    cost : float
        C > 0.
    costs : tuple of float
        A grid of C, for `train_grid`; empty for `cost` alone.
    class_weights : tuple of (label, weight)
        Factors of C for the rows of a class.
    balanced : bool
        Give each class the weight n_rows / (n_classes * its rows), instead of `class_weights`; if
        rows have weights, their sums replace the numbers of rows.
    epsilon : float
        Epsilon of the losses for regression (LIBLINEAR's ``-p``).
    nu : float
        Of a one-class SVM (LIBLINEAR's ``-n``), above 0 and at most 1: at most this share of the
        rows, by their weights, are outliers.
    bias : float
        Value of the implicit bias feature; negative for none.
    regularize_bias : bool
        Whether its weight is regularised. That it is not is for all solvers but 4 and 21, with
        coordinate descent or Newton's method and a bias above 0.
    gap : float or None
        Stop when the certified relative duality gap (P - D) / P is at most this; of a one-class
        SVM (P - D) / max(|P|, |D|).
    tolerance : float or None
        Stop when the violation of every model is at most this (LIBLINEAR's ``-e``): the largest
        minus the smallest projected gradient; for regression the sum of their absolute values,
        relative to that of the first outer iteration. If both are given, both must hold; with
        neither, `gap` is 0.001. Where coordinate descent is slow and Newton's method goes on, the
        gap decides: if none was given, this number or 0.001, whichever is smaller.
    max_outer : int or None
        Largest number of outer iterations. None is 1000, but 10,000 passes of Newton's method, 50
        of pegasos, 1 for averages: see `most_outer`.
    time_limit_s : float
        Stop once this many seconds have passed: the outer iteration is ended after one pass over
        the data, and a certificate may take another. A cluster ends its round first.
    evaluate : str or None
        LIBSVM text, or of a store of tables a table, a folder of them or a pattern; the model is
        scored on its rows after each outer iteration.
    evaluate_text : TextOptions or None
        How that text is read. Index base and hashing are those of the store, threads and memory
        those of the run.
    patience : int or None
        Stop after this many outer iterations without a better score, and keep the best model.
    epochs : int or None
        Epochs per block step (Yu's BLOCK-L-N). None continues until the violation is at most
        `inner_tolerance` (BLOCK-L-D), for at most 100 epochs.
    inner_tolerance : float
        Violation that ends a block step if `epochs` is None.
    selection : {"active", "permute", "shrink", "avsf", "online"}
        Rows of an epoch. active: all, permuted, and more passes over the working set of free rows,
        which stay in memory. permute: all, permuted. shrink: without rows whose gradient points
        out of a bound (Hsieh, 3.2), from the second epoch of a block step on. avsf: by adaptive
        frequencies (Glasmachers and Dogan, 2013), from the second epoch on. online: drawn with
        replacement (Hsieh, Algorithm 2).
    group : int or None
        Blocks per block step; None takes as many as the memory budget holds. 1 is Yu's original.
    average : bool
        Solve each block step on its own and average the w, once (Yu, 7.2).
    sample_blocks : int or None
        Train on this many randomly chosen blocks (Yu, 7.1).
    pegasos_batch : int or None
        Rows per update of Pegasos; None takes all rows of a block step (BLOCK-P-B), 1 is BLOCK-P-I.
    seed : int
        Seed of the orders of blocks and rows.
    threads : int
        Threads that read and decode; the result does not depend on their number.
    memory_bytes : int
        Memory budget of the whole process; by default half of the memory of the machine, or of the
        lowest limit of a cgroup. The number of blocks per block step follows from it, and with that
        the bits of the model.
    run : str
        Name of the run, and of the folder in the store with its alpha and checkpoints.
    resume : bool
        Continue from the checkpoint of the run, if there is one.
    restart : bool
        Start again if a run of this name was interrupted, and delete its checkpoint; without it
        that is refused.
    warm_start : bool
        Start from the alpha that the run left, also with other rows, C or class weights.
    checkpoint_s : float
        Seconds between checkpoints; infinity for none at all.
    """

    solver: int = 3
    l1_ratio: float = 1.0
    method: str | None = None
    cost: float = 1.0
    costs: tuple[float, ...] = ()
    class_weights: tuple[tuple[float, float], ...] = ()
    balanced: bool = False
    epsilon: float = 0.1
    nu: float = 0.5
    bias: float = -1.0
    regularize_bias: bool = True
    gap: float | None = None
    tolerance: float | None = None
    max_outer: int | None = None
    time_limit_s: float = math.inf
    evaluate: str | None = None
    evaluate_text: TextOptions | None = None
    patience: int | None = None
    epochs: int | None = 1
    inner_tolerance: float = 0.1
    selection: str = "active"
    group: int | None = None
    average: bool = False
    sample_blocks: int | None = None
    pegasos_batch: int | None = 1
    seed: int = 0
    threads: int = field(default_factory=_cpus)
    memory_bytes: int = field(default_factory=_budget)
    run: str = "default"
    resume: bool = False
    restart: bool = False
    warm_start: bool = False
    checkpoint_s: float = 60.0

    def __post_init__(self) -> None:
        check_types(self)
        finite = _finite
        _check("solver", self.solver, self.solver in SOLVER_TYPES, "0 to 7, 11 to 13, or 21")
        solver = SOLVER_TYPES[self.solver]
        only_descent = self.solver in (CRAMMER_SINGER, ONE_CLASS)
        if self.method is None or (self.method == "auto" and (solver.l1 or not solver.smooth)):
            object.__setattr__(self, "method", self._usual_method())
        methods = ("dual", "pegasos", "newton", "auto")
        _check("method", self.method, self.method in methods, f"one of {', '.join(methods)}")
        newton, auto = self.method == "newton", self.method == "auto"
        has_primal = not newton or not only_descent
        _check("method", self.method, has_primal, f"dual for solver {self.solver}")
        has_dual = newton or not solver.l1
        _check("method", self.method, has_dual, f"newton for solver {self.solver}")
        pegasos = self.method == "pegasos"
        _check("solver", self.solver, self.solver == 3 or not pegasos, "3 for pegasos")
        _check("C", self.cost, finite(self.cost) and self.cost > 0, "finite and above 0")
        for cost in self.costs:
            _check("C", cost, finite(cost) and cost > 0, "finite and above 0")
        distinct = len(set(self.costs)) == len(self.costs)
        _check("C", self.costs, distinct, "a list without repetitions")
        cold = not (self.warm_start and self.costs)
        _check("warm-start", self.warm_start, cold, "used with one C")
        alone = not (self.balanced and self.class_weights)
        _check("balanced", self.balanced, alone, "used without weights of classes")
        classes = not (self.balanced and solver.regression)
        _check("balanced", self.balanced, classes, "used with classes, not for a regression")
        for label, weight in self.class_weights:
            _check("class", label, finite(label), "finite")
            name = f"weight of class {format_number(label)}"
            _check(name, weight, finite(weight) and weight > 0, "finite and above 0")
        _check("epsilon", self.epsilon, finite(self.epsilon) and self.epsilon >= 0, "at least 0")
        _check("nu", self.nu, 0 < self.nu <= 1, "above 0 and at most 1")
        _check("l1-ratio", self.l1_ratio, 0 < self.l1_ratio <= 1, "above 0 and at most 1")
        takes_ratio = self.l1_ratio == 1.0 or solver.l1
        _check("solver", self.solver, takes_ratio, "5 or 6 with an l1-ratio")
        small = finite(self.bias) and self.bias < BIAS_BOUND
        _check("bias", self.bias, small, "finite and below 1e153: its square is added to a row's")
        for name, limit in (("gap", self.gap), ("tolerance", self.tolerance)):
            _check(name, limit, limit is None or (finite(limit) and limit > 0), "above 0")
        provable = self.gap is None or self.gap >= _LEAST_GAP
        _check("gap", self.gap, provable, "at least 1e-12: rounding hides what is smaller")
        if self.gap is None and self.tolerance is None:
            object.__setattr__(self, "gap", _GAP)
        limited = self.max_outer is None or self.max_outer >= 1
        _check("max-outer", self.max_outer, limited, "at least 1")
        _check("time-limit", self.time_limit_s, self.time_limit_s > 0, "above 0")
        patient = self.patience is None or self.patience >= 1
        _check("patience", self.patience, patient, "at least 1")
        evaluated = self.patience is None or self.evaluate is not None
        _check("patience", self.patience, evaluated, "used with --eval")
        epochs = self.epochs
        _check("epochs", epochs, epochs is None or 1 <= epochs <= 10_000, "from 1 to 10000")
        _check("inner-tol", self.inner_tolerance, self.inner_tolerance > 0, "above 0")
        ends = epochs is None or self.inner_tolerance == TrainOptions.inner_tolerance
        _check("inner-tol", self.inner_tolerance, ends, "used with --epochs auto, which it ends")
        known = ("active", "permute", "shrink", "avsf", "online")
        _check("selection", self.selection, self.selection in known, f"one of {', '.join(known)}")
        _check("group", self.group, self.group is None or self.group >= 1, "at least 1")
        _check("average", self.average, not (self.average and pegasos), "used without pegasos")
        sample = self.sample_blocks
        _check("sample-blocks", sample, sample is None or sample >= 1, "at least 1")
        batch = self.pegasos_batch
        _check("pegasos-batch", batch, batch is None or batch >= 1, "at least 1, or block")
        _check("pegasos-batch", batch, pegasos or batch == 1, "used with --method pegasos")
        _check("seed", self.seed, 0 <= self.seed < 1 << 63, "from 0 to 2**63 - 1")
        _check(
            "threads", self.threads, 1 <= self.threads <= MOST_THREADS, f"from 1 to {MOST_THREADS}"
        )
        _check("memory", self.memory_bytes, self.memory_bytes >= 1 << 20, "at least 1M")
        plain = _PLAIN_NAME.fullmatch(self.run) is not None
        _check("run", self.run, plain, _PLAIN)
        whole = re.search(r"\.part\d+of\d+$", self.run) is None
        _check("run", self.run, whole, "no name of a part of a run, as NAME.part1of2")
        _check("run", self.run, not self.run.endswith(".cv"), "no name that cv uses, as NAME.cv")
        one = not (self.warm_start and self.resume)
        rule = "used without --resume, which goes on with a warm start, too"
        _check("warm-start", self.warm_start, one, rule)
        anew = not (self.restart and (self.warm_start or self.resume))
        _check("restart", self.restart, anew, "used without --resume and --warm-start")
        descent = (self.epochs, self.selection, self.average) == (1, "active", False)
        rule = "dual with --epochs, --selection or --average, which are for coordinate descent"
        _check("method", self.method, descent or not (newton or auto), rule)
        smooth = not newton or solver.smooth
        _check(
            "tolerance",
            self.tolerance,
            smooth or self.tolerance is None,
            "left out: by the method newton solvers 3 and 13 have no violation, give a gap",
        )
        if not self.regularize_bias:
            _check("bias", self.bias, self.bias > 0.0, "above 0 where its weight is free")
            fits = not only_descent
            _check("solver", self.solver, fits, "neither 4 nor 21 where the bias is free")
            _check("method", self.method, not pegasos, "another where the bias is free")
            _check("average", self.average, not self.average, "left out where the bias is free")
        whole = not (self.warm_start and self.average)
        _check("warm-start", self.warm_start, whole, "used without --average, which starts anew")
        _check("checkpoint-s", self.checkpoint_s, self.checkpoint_s > 0, "above 0")
        if solver.one_class:
            self._check_one_class()

    def _usual_method(self) -> str:
        solver = SOLVER_TYPES[self.solver]
        if solver.l1:
            return "newton"
        if not solver.primal:
            return "dual"
        return "auto" if self.tolerance is None else "newton"

    def _check_one_class(self) -> None:
        """Refuse what a one-class SVM does not have."""
        for given, flag, why in (
            (self.cost != 1.0 or self.costs, "-c", "its parameter is nu"),
            (self.class_weights or self.balanced, "weights of classes", "it has no classes"),
            (self.bias >= 0, "-B", "rho takes the place of a bias"),
            (self.evaluate is not None, "--eval", "it does not learn the labels of rows"),
            (self.average, "--average", "alpha of all rows have one sum"),
            (self.epochs is None, "--epochs auto", "a number of epochs is what it takes"),
            (self.group == 1, "--group 1", "rows of several blocks exchange their alpha"),
            (
                self.selection not in ("active", "permute"),
                f"--selection {self.selection}",
                "it chooses pairs of rows",
            ),
        ):
            if given:
                raise UsageError(f"a one-class SVM does not take {flag}: {why}", "leave it out")

    @property
    def most_outer(self) -> int:
        """How many outer iterations there are at most."""
        if self.max_outer is not None:
            return self.max_outer
        if self.method == "newton":
            return _MOST_PASSES
        if self.method == "pegasos":
            return _PEGASOS_OUTER
        return 1 if self.average else _MOST_OUTER

    def for_newton(self) -> "TrainOptions":
        """Return the options of Newton's method in place of descent: violations are of the dual."""
        most = self.max_outer or _MOST_PASSES
        if self.tolerance is None:
            return replace(self, max_outer=most)
        smaller = max(min(self.tolerance, _GAP), _LEAST_GAP)
        return replace(self, gap=self.gap or smaller, tolerance=None, max_outer=most)

    def course(self) -> dict[str, Any]:
        """Return, as JSON, the options that a run cannot change when it is resumed."""
        free = {
            "gap", "tolerance", "max_outer", "time_limit_s", "evaluate", "evaluate_text",
            "patience", "threads", "memory_bytes", "run", "resume", "restart", "warm_start",
            "checkpoint_s",
        }  # fmt: skip
        course = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in free}
        weights = [list(pair) for pair in self.class_weights]
        return course | {"costs": list(self.costs), "class_weights": weights}
