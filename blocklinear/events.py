"""What a run reports. The library never prints: it calls a listener with one of these."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Warned:
    """Something the user should know, in a sentence."""

    message: str


@dataclass(frozen=True)
class SplitProgress:
    """Bytes taken from the inputs so far (compressed, if they are), and their total if known."""

    bytes_read: int
    bytes_total: int | None
    rows: int
    nnz: int


@dataclass(frozen=True)
class Visited:
    """Some of the visits of an outer iteration are done."""

    outer: int
    done: int
    visits: int


@dataclass(frozen=True)
class OuterIteration:
    """Every block was visited once.

    Attributes
    ----------
    outer : int               from 1
    seconds : float           since training began
    load_s, wait_s, solve_s : float     reading and decoding; the solver waiting for it; solving
    bytes_read : int          from block files, in this outer iteration
    dual : float              D(alpha), exact
    primal : float            P estimated from first-touch margins, or exact when certified
    gap : float               (primal - dual) / primal
    certified : bool          whether the gap is a proven bound
    violation : float         largest minus smallest projected gradient at first touch
    n_sv : int                rows with alpha != 0
    n_models : int
    steps : int               rows worked on, each as often as it was
    rss_bytes : int           resident anonymous memory
    accuracy : float or None  on held-out rows, from 0 to 1
    mean_squared_error : float or None  on held-out rows, for regression
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
    accuracy: float | None = None
    mean_squared_error: float | None = None


Event = Warned | SplitProgress | Visited | OuterIteration
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listen to nothing."""
