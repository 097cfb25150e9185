"""What a run reports. The library never prints: it calls a listener with one of these."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from blocklinear.numerals import counted

NO_BETTER_SCORE = "without a better score"
"""Why a run ended says so, after how many outer iterations, where patience was asked for."""


@dataclass(frozen=True)
class Message:
    """Something to be said, in a sentence."""

    message: str


class Warned(Message):
    """Something the user should know."""


class SlowlyConverging(Warned):
    """Training converges slowly, or ended before it did."""


class OneLabel(Warned):
    """All rows have one label."""


class GoesOver(Message):
    """Newton's method goes on where coordinate descent would take longer."""


@dataclass(frozen=True)
class TextProgress:
    """How much text was read.

    Attributes
    ----------
    bytes_read : int          of the inputs as they are on disk, compressed or not
    bytes_total : int or None     their size, None for streams
    rows : int
    """

    bytes_read: int
    bytes_total: int | None
    rows: int


@dataclass(frozen=True)
class SplitProgress(TextProgress):
    """How much text was read to be stored; nnz is the number of entries in it."""

    nnz: int


@dataclass(frozen=True)
class Progress:
    """How much of how much is done."""

    done: int
    total: int


class BlockProgress(Progress):
    """How many blocks were read, where a command reads each once."""


class TransposeProgress(Progress):
    """How many entries were read while columns are made, in all passes together."""


@dataclass(frozen=True)
class BatchPresent:
    """What is to be added is in the store already, as the batch `name`: nothing is changed."""

    name: str


@dataclass(frozen=True)
class WarmStarted:
    """Training starts from the alpha of an earlier run.

    Attributes
    ----------
    rows_kept, rows_new, rows_gone : int    rows whose alpha was kept, rows that the earlier run did
                              not have, and rows that were removed since
    how : {"kept", "changed", "recomputed"}     what was done to w: nothing, Eq. (16) over the
                              blocks that changed, or a pass over the rows that were kept
    blocks_read, bytes_read : int       for it
    """

    rows_kept: int
    rows_new: int
    rows_gone: int
    how: str
    blocks_read: int
    bytes_read: int

    @property
    def message(self) -> str:
        """The same in a sentence."""
        ways = {
            "kept": "w as it was",
            "changed": f"w by Eq. (16) over {counted(self.blocks_read, 'changed block')}",
            "recomputed": f"w recomputed in one pass over {counted(self.blocks_read, 'block')}",
        }
        if self.how == "recomputed" and not self.blocks_read:
            ways["recomputed"] = "w recomputed from the blocks in memory"
        return (
            f"warm start: alpha of {counted(self.rows_kept, 'row')} kept, "
            f"{counted(self.rows_new, 'row')} new, {self.rows_gone} gone; {ways[self.how]}"
        )


@dataclass(frozen=True)
class MethodChosen:
    """Which method trains, where that was left to the data.

    Attributes
    ----------
    method : {"dual", "newton"}
    why : str                 in a sentence
    """

    method: str
    why: str

    @property
    def message(self) -> str:
        """All of it in a sentence."""
        names = {"dual": "coordinate descent", "newton": "Newton's method"}
        return f"{names[self.method]}: {self.why}"


@dataclass(frozen=True)
class RunStarted:
    """A run starts.

    Attributes
    ----------
    task : {"train", "cross-validation"}
    store : dict              as JSON: path, rows, features, nnz, blocks, bytes, classes (how many;
                              None where labels are not counted), labels (of up to 100 classes:
                              label and rows), batches (how many), last_batches (of up to 20: name
                              and rows), hash_bits, normalize, weighted, fingerprint
    options : dict            as JSON: the fields of `TrainOptions`
    version : str             of the program
    """

    task: str
    store: dict[str, Any]
    options: dict[str, Any]
    version: str


@dataclass(frozen=True)
class RunEnded:
    """A run ended, well or not.

    Attributes
    ----------
    stopped : str             "converged", or why it ended
    seconds : float           since it started, with what comes before and after training
    outer : int or None       outer iterations; None where there is no model
    primal, dual, gap : float or None       as certified: of several models, sums and the largest
    peak_bytes : int          largest resident memory of the process so far, mapped files included
    """

    stopped: str
    seconds: float
    outer: int | None = None
    primal: float | None = None
    dual: float | None = None
    gap: float | None = None
    peak_bytes: int = 0


@dataclass(frozen=True)
class Validated:
    """A cross-validation found the best C; result is what `ValidationReport.to_json` writes."""

    result: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BlockStep:
    """A block step ended: `done` of the `total` block steps of an outer iteration."""

    outer: int
    done: int
    total: int


@dataclass(frozen=True)
class OuterIteration:
    """Every block was trained on once, or after a warm start those that needed it.

    Attributes
    ----------
    outer : int               from 1
    seconds : float           since training began
    load_s, wait_s, solve_s : float     reading and decoding; the solver waiting for it; solving
    bytes_read : int          from block files, in this outer iteration
    dual : float              D(alpha), exact
    primal : float            P, exact when certified; before, an estimate: D and the sum over rows
                              of their terms of P - D, each when the row was first worked on in this
                              outer iteration
    gap : float               (primal - dual) / primal; of several models the largest
    certified : bool          whether the gap is a proven bound
    violation : float         largest minus smallest projected gradient, each when its row was first
                              worked on in this outer iteration; for regression the sum of their
                              sizes, divided by the first such sum
    n_sv : int                rows with alpha != 0
    n_models : int            still trained
    steps : int               rows worked on, for each model, as often as they were
    rss_bytes : int           resident anonymous memory
    entries : int             nonzeros of the rows worked on, each as often as it was read: once for
                              all models that share a pass; 0 in Newton steps
    pass_entries : int        of these, in passes over the working set
    parts : int               calls of kernels that this took in coordinate descent; 0 where they
                              are not counted: of a one-class SVM, by Pegasos, on a cluster
    certificates : int        passes at its end that tried to certify the gap, also one that ended
                              early as the gap was seen to be too large
    accuracy : float or None  on held-out rows, from 0 to 1
    mean_squared_error : float or None  on held-out rows, for regression
    certify_s, score_s, save_s : float  passes that certify; scoring held-out rows; saving
                              checkpoints since the outer iteration before was reported
    peak_bytes : int          largest resident memory of the process so far, mapped files included
    gaps : tuple of (float, float)      each of several C, and the largest gap of its models, those
                              included that are trained no more
    """

    outer: int
    seconds: float
    load_s: float
    wait_s: float
    solve_s: float
    bytes_read: int
    dual: float
    primal: float
    gap: float
    certified: bool
    violation: float
    n_sv: int
    n_models: int
    steps: int
    rss_bytes: int
    entries: int = 0
    pass_entries: int = 0
    parts: int = 0
    certificates: int = 0
    accuracy: float | None = None
    mean_squared_error: float | None = None
    certify_s: float = 0.0
    score_s: float = 0.0
    save_s: float = 0.0
    peak_bytes: int = 0
    gaps: tuple[tuple[float, float], ...] = ()


Event = (
    Warned
    | SlowlyConverging
    | GoesOver
    | OneLabel
    | TextProgress
    | BlockProgress
    | TransposeProgress
    | BatchPresent
    | RunStarted
    | MethodChosen
    | WarmStarted
    | BlockStep
    | OuterIteration
    | Validated
    | RunEnded
)
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listen to nothing."""
