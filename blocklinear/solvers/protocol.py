"""What the outer loop asks of a solver, whatever it does on the rows of a group."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from blocklinear.objectives.certificate import Certificate
from blocklinear.objectives.feasible_sets import FeasibleSet
from blocklinear.objectives.models import Models
from blocklinear.store import shapes
from blocklinear.store.groups import Group
from blocklinear.store.prefetch import Loaded
from blocklinear.store.row_arrays import RowArray

Floats = NDArray[np.float64]
T = TypeVar("T")
CutShort = Callable[[], bool]
"""Called between two parts of a block step: returns true once the time limit has passed, to leave
out all but the first pass over the rows; raises Abandoned to give the block step up."""


def each(threads: Executor, work: Callable[..., T], *of: Iterable[Any]) -> list[T]:
    """Return what `map` does, called in threads; all calls have ended, also where one fails.

    NumPy does not warn of what is infinite, or no number: that is noticed at the end of an outer
    iteration.
    """

    def quietly(*call: Any) -> T:
        with np.errstate(all="ignore"):
            return work(*call)

    calls = list(zip(*of, strict=True))
    if len(calls) == 1:
        return [quietly(*calls[0])]
    futures = [threads.submit(quietly, *call) for call in calls]
    wait(futures)
    return [future.result() for future in futures]


def attributes(thing: object, names: Iterable[str]) -> dict[str, Any]:
    """Return attributes as JSON, by their names without an underscore in front."""
    return {name.lstrip("_"): getattr(thing, name) for name in names}


def take_attributes(thing: object, names: Iterable[str], state: Mapping[str, Any]) -> None:
    """Set attributes to what `attributes` returned of them.

    ValueError is raised if a value is not of the type of the one that it replaces.
    """
    for name in names:
        value = state[name.lstrip("_")]
        shapes.like(getattr(thing, name))(value, name)
        setattr(thing, name, value)


class Abandoned(Exception):
    """A block step was given up because a stop was asked for: w and alpha do not fit each other."""


@dataclass(frozen=True)
class Estimate:
    """What an outer iteration saw; of several problems, the sums.

    `dual` is exact, except before all rows had their turn after a warm start, and with Pegasos,
    whose w is not the sum of s_i alpha_i x_i.

    Attributes
    ----------
    primal : float            `dual` plus P - D as sampled; without a sample, as when each row was
                              first worked on
    dual, violation : float   the largest violation of those that are trained
    steps : int               rows worked on
    gap, middle_gap : float   of problems that are trained the largest, and the middle one, as half
                              of them are dropped once it is small enough
    rise : float              what the steps added to a dual value, relative to it: the largest;
                              infinite where it is not known
    entries, pass_entries : int         nonzeros worked on, and of these in passes over the working
                              set
    parts : int               calls of kernels that this took; 0 where they are not counted
    exact : bool              whether `primal`, `dual` and `gap` are those of a certificate
    final : bool              whether the solver can do no more
    new : bool                whether the weights have changed since the estimate before
    gaps : tuple of float     of each problem, also of those no longer trained
    """

    primal: float
    dual: float
    violation: float
    steps: int
    gap: float
    middle_gap: float
    rise: float
    entries: int = 0
    pass_entries: int = 0
    parts: int = 0
    exact: bool = False
    final: bool = False
    new: bool = True
    gaps: tuple[float, ...] = ()


@dataclass(frozen=True)
class Start:
    """Weight vectors that a warm start fills together."""

    feasible_set: FeasibleSet  # where their alpha may be
    alpha: Floats  # float64[n_rows, M]: a view of what the solver works on
    W: Floats  # float64[n_features + 1, M or more]: the same memory; zeros after the first M


class Trainee(ABC):
    """What is trained, as the outer loop sees it, however an outer iteration is run.

    ``len()`` is the number of problems still trained.

    Attributes
    ----------
    task : Models             all models of the run
    bias : float              value of the bias feature, 0 for none
    state : dict              what a checkpoint must know before it can fill `arrays`, as JSON
    """

    task: Models
    bias: float
    state: Any

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""

    @property
    @abstractmethod
    def n_sv(self) -> int:
        """Rows with an alpha that is not 0, summed over problems that are trained."""

    @abstractmethod
    def estimate(self) -> Estimate:
        """Return what the outer iteration saw."""

    def drop_solved(self) -> bool:
        """Stop training problems whose last certificate is good enough; return if any was."""
        return False

    @abstractmethod
    def chosen(self, certificate: Certificate) -> Floats:
        """Return the weights that a certificate is about, float64[n_features + 1, M]."""

    def proven(self) -> list[Certificate]:
        """Return the certificate of each of many models; nothing for one problem."""
        return []

    @abstractmethod
    def current(self) -> Floats:
        """Return the weights as they are, float64[n_features + 1, M]."""

    @abstractmethod
    def adopt(self, weights: Floats) -> None:
        """Make other weights of one problem, float64[n_features + 1, M], the candidates."""

    def to_newton(
        self, enough_products: float, certificate: Certificate | None
    ) -> "Trainee | None":
        """Return Newton's method, to go on from what was certified here; None if it cannot.

        Without a certificate it is to be filled from a checkpoint. `enough_products` is as for
        `NewtonIterate`.
        """
        return None


class Solver(Trainee):
    """What is trained, and how, on one group of rows after another.

    An outer iteration is `begin`, then `step` for each group, until what is asked for is `reached`.
    `estimate` returns what came of it.

    Attributes
    ----------
    permutes : bool           whether blocks are to come in another order in each outer iteration
    starts_from_w : bool      whether a warm start is from w, if there is one, and not from alpha
    updates : float64[1] or None        updates of w done, if the next ones depend on it
    passes : float64[1] or None         over rows kept in memory, in the next outer iteration
    first_violation : float64[] or None         what violations of a regression are compared with
    started_warm : bool       whether alpha are those of an earlier run, as far as they fit
    heavy : dict of bool      whether blocks added more than their share of the gap asked for, of
                              those that the last pass for a certificate came to
    """

    permutes = True
    starts_from_w = True
    started_warm = False
    heavy: Mapping[int, bool] = MappingProxyType({})
    updates: Floats | None = None
    passes: Floats | None = None
    first_violation: Floats | None = None

    @property
    def row_arrays(self) -> Mapping[str, RowArray]:
        """What is known of rows other than alpha, by the names of a checkpoint; it may all be 0."""
        return {}

    @property
    @abstractmethod
    def starts(self) -> Sequence[Start]:
        """What a warm start is to fill."""

    def restore(self, pass_over: Callable[[], Iterable[Loaded]]) -> None:
        """Fetch what is kept in memory only, after `arrays` were filled from a checkpoint.

        `pass_over` yields every block once.
        """

    def compare_with(self, first: Sequence[float]) -> None:
        """Compare violations, where these are of weights, with those of models at w = 0."""

    def begin(self, goal: float, learns: bool = True) -> None:
        """Start an outer iteration.

        It may end at a relative gap of `goal`, as estimated from some rows; 0 for no such end. The
        gains of the last one decide what it does only if it `learns` from them.
        """

    @abstractmethod
    def step(self, group: Group, outer: int, number: int, steps: int, cut_short: CutShort) -> None:
        """Work on one group, block step `number` (from 0) of `steps`; `cut_short` may end it."""

    @property
    def reached(self) -> bool:
        """Whether the outer iteration need not go on."""
        return False

    @abstractmethod
    def certify(self, stream: Iterable[Loaded], enough: float | None = None) -> Certificate | float:
        """Return the certificate, of several problems the sums and the largest gap.

        The stream has every block once. As soon as all gaps are known to be above `enough`, an
        estimate of the middle one is returned.
        """

    @abstractmethod
    def discard(self) -> None:
        """Delete the scratch files."""
