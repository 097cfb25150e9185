"""What workers do: a round of one part, its share of a certificate, reading what all need.

All that a task needs comes with it or is in the folder of the run, so that it can be run again
anywhere. Between tasks a worker keeps decoded blocks, as far as the memory given allows.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from blocklinear.cluster import place as places
from blocklinear.cluster.job import (
    Job,
    NewtonRound,
    Round,
    alpha_after,
    pairs_before,
    seed_of_part,
)
from blocklinear.cluster.place import Place
from blocklinear.cluster.sums import (
    Change,
    Packed,
    PartReport,
    PassReport,
    ProofSums,
    Started,
)
from blocklinear.errors import BlocklinearError, ClusterError, DamagedError
from blocklinear.kernels.blocks.scaling import scale_columns
from blocklinear.objectives.certificate import Proof
from blocklinear.solvers.block_descent import BlockDescent
from blocklinear.solvers.factory import make_descent
from blocklinear.solvers.newton.passes import RowPass
from blocklinear.solvers.protocol import Abandoned
from blocklinear.solvers.working_set import SAMPLED_ROWS
from blocklinear.store.files import temporary_folder
from blocklinear.store.groups import Group, Pins, rows_without_entries
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import GroupLoader, Loaded
from blocklinear.store.row_arrays import RowArray
from blocklinear.store.store import BlockStore
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.permutations import block_groups, some_blocks
from blocklinear.training.previous import Previous
from blocklinear.training.rounds.alpha import Blocks, RoundAlpha, stepped
from blocklinear.training.rounds.files import once_there
from blocklinear.training.run import Times
from blocklinear.training.warm_start import warm_parts

Floats = NDArray[np.float64]
_ROWS_AT_ONCE = 1 << 16
_SAMPLED_SHARE = 8
"""P - D is estimated from one row in so many, of a few blocks, but at least `SAMPLED_ROWS`."""


@dataclass
class Session:
    """What a worker keeps of a run between tasks; one part is worked on at a time."""

    name: str  # of the run
    manifest: Manifest
    pins: Pins
    place: Place
    # held by the task that works on a part
    lock: threading.Lock = field(default_factory=threading.Lock)
    # set when nothing more is done for the run here
    ended: threading.Event = field(default_factory=threading.Event)
    replaced: bool = False  # whether that is because the worker has a task of another run
    whole: GroupLoader | None = None  # of all blocks, where a worker has them
    previous: Previous | None = None  # what the run starts from, until it has begun

    def loader(self, job: Job, part: Manifest) -> contextlib.AbstractContextManager[GroupLoader]:
        """Return what loads the groups of a part; where that is all blocks, they stay loaded."""
        store, group, threads = BlockStore(job.folder, part), job.plan.group, self.place.threads
        if job.n_parts > 1 or group < len(part.blocks):
            return GroupLoader(store, group, threads, pins=self.pins)
        if self.whole is None:
            self.whole = GroupLoader(store, group, threads, job.plan.pin_bytes)
        return contextlib.nullcontext(self.whole)

    def end(self, replaced: bool = False) -> None:
        """Have the task that works on a part end soon, and free the blocks that are kept."""
        self.replaced = replaced
        self.ended.set()
        self.free()

    def give_up_if_ended(self) -> None:
        """End the task that works on a part, if nothing more is to be done for the run.

        Raises
        ------
        ClusterError
            If the worker has a task of another run.
        Abandoned
            If the run has ended.
        """
        if not self.ended.is_set():
            return
        if self.replaced:  # the one whose tasks go on when their client is dead has to give way
            raise ClusterError(
                "works for another run, too, and has memory for one",
                "when that has ended, give the same command with --resume",
            )
        raise Abandoned

    def free(self) -> None:
        """Free the blocks that are kept if the run needs nothing more, once no task has them."""
        if self.ended.is_set() and self.lock.acquire(blocking=False):
            with contextlib.ExitStack() as stack:
                stack.callback(self.lock.release)
                if self.whole is not None:
                    stack.push(self.whole)
                    self.whole = None


_sessions: dict[str, Session] = {}  # by worker: several may share a process
_opening = threading.Lock()


def _session(job: Job) -> Session:
    """Return the session of the worker that runs this task; of one run at a time."""
    place = places.here()
    with _opening:
        found = _sessions.get(place.address)
        if found is None or found.name != job.name:
            if found is not None:
                found.end(replaced=True)
            pins = Pins(job.plan.pin_bytes)
            found = Session(job.name, job.manifest(), pins, place)
            _sessions[place.address] = found
    return found


def can_read(job: Job) -> None:
    """Raise an error unless this worker has the store of a run."""
    job.manifest()


def forget(name: str) -> None:
    """End the tasks of a run on the workers of this process, and free what it keeps there."""
    with _opening:
        for worker in [key for key, session in _sessions.items() if session.name == name]:
            _sessions.pop(worker).end()


@contextlib.contextmanager
def _located() -> Iterator[None]:
    """Name the worker in errors: a disk that one machine lacks is fine on the others.

    ConnectionAbortedError is raised if the worker is being closed, which deletes its scratch files:
    others do its work.
    """
    try:
        yield
    except (BlocklinearError, OSError) as error:
        place = places.here()
        if not place.scratch.exists():
            raise ConnectionAbortedError(f"worker {place.address} is being closed") from error
        if isinstance(error, BlocklinearError):
            raise error.at(f"worker {place.address}") from error
        raise


class Part:
    """A part of the blocks while a worker has it.

    Parameters
    ----------
    rounds : int              rounds before
    drawn : int               the round of which it is a part
    number : int              of the part, in it
    folder : Path             for scratch files

    Attributes
    ----------
    session : Session
    task : Models             with the folds of its rows
    """

    def __init__(
        self, job: Job, session: Session, rounds: int, drawn: int, number: int, folder: Path
    ) -> None:
        manifest, self._rounds = session.manifest, rounds
        self._job, self.session, self.number = job, session, number
        self._parts = job.parts(manifest, drawn)
        self.blocks = self._parts[number]
        self.manifest = some_blocks(manifest, self.blocks)
        self._seed = seed_of_part(job.options.seed, drawn, number)
        n_blocks, group = len(self.blocks), job.plan.group
        self.groups = block_groups(self._seed, drawn, n_blocks, group, permuted=False)
        self.task = job.task
        if job.folded:
            folds = RowArray(folder / "folds.work", self.manifest, np.int32)
            folds.all[:] = job.folds(manifest, self.blocks)
            self.task = replace(self.task, folds=folds)
        self._folder, self.times = folder, Times()

    def stream(self, groups: Sequence[Blocks] | None = None) -> Iterator[Loaded]:
        """Yield the groups of the part, or others, by the places of their blocks in it."""
        if groups is None or self._has_all:  # a loader of all blocks keeps what it has loaded first
            groups = self.groups
        with (
            self.session.loader(self._job, self.manifest) as loader,
            loader.calling(self.session.give_up_if_ended),
        ):
            for loaded in loader.stream(groups):
                self.session.give_up_if_ended()
                self.times.add(loaded)
                yield loaded

    @property
    def _has_all(self) -> bool:
        """Whether all rows are here, and in memory at once.

        Then a round is an outer iteration of one machine, and begins with the working set of the
        one before: 240,000 blogs take 6 rounds to a gap of 1e-3, as one machine does, and not 10.
        Several parts would solve their own rows too well: film reviews in 4 and 8 parts would take
        13 and 25 rounds instead of 16 and 24, but three and five times the work.
        """
        return self._job.n_parts == 1 and len(self.groups) == 1

    def write_alpha(self, first: int, models: Sequence[int], before: Floats, after: Floats) -> None:
        """Write alpha of models as they were before the round and are now, float64[n_rows, M]."""
        rows = [block.rows for block in self.session.manifest.blocks]
        number = first + self._rounds + 1
        RoundAlpha(self._job.run_folder, number, self._parts, rows, models).write(
            self.number, before, after
        )

    def discard(self) -> None:
        """Delete the scratch files."""


class DescentPart(Part):
    """A part with alpha and weights, in rounds of descent.

    Parameters
    ----------
    at : Round                the rounds before
    factors : float64[n_features + 1] or None     by which columns are multiplied
    """

    def __init__(
        self,
        job: Job,
        session: Session,
        at: Round,
        number: int,
        factors: Floats | None,
        folder: Path,
    ) -> None:
        super().__init__(job, session, at.outer, at.outer + 1, number, folder)
        self._at, self._factors, bias = at, factors, job.options.bias
        if factors is not None and bias > 0.0:
            bias *= float(factors[-1])
        options = replace(job.options, seed=self._seed, bias=bias, threads=session.place.threads)
        entries = job.plan.working_set_entries if len(self.groups) > 1 else 0
        self.solver: BlockDescent = make_descent(
            self.manifest, options, self.task, folder, entries, at.trained
        )
        self.alpha = np.concatenate(alpha_after(job, session.manifest, at, self.blocks))
        ends = np.cumsum([vectors.width for vectors in self.solver.vectors])[:-1]
        self._before = np.split(self.alpha, ends, axis=1)
        for start, own in zip(self.solver.starts, self._before, strict=True):
            start.alpha[:] = own

    def discard(self) -> None:
        """Delete the scratch files."""
        self.solver.discard()

    def _cut_short(self) -> bool:
        self.session.give_up_if_ended()
        return False

    @property
    def sample(self) -> Blocks:
        """Blocks with enough rows for an estimate, by their places: they were drawn at random."""
        return self.groups[0][: -(-len(self.blocks) // _SAMPLED_SHARE)]

    def descend(self, weights: Sequence[Floats]) -> None:
        """Work on all rows once, and on the working set.

        Parameters
        ----------
        weights : sequence of float64[n_features + 1, width]
            Before the round.
        """
        for k, (W, before) in enumerate(zip(self.weights, weights, strict=True)):
            self._scaled(k, before, W)
        self.solver.passes[0] = self._at.passes
        self.labels = RowArray(self._folder / "labels.work", self.manifest)
        self.row_weights: RowArray | None = None
        if self.manifest.weighted:
            self.row_weights = RowArray(self._folder / "weights.work", self.manifest)
        self.solver.begin(0.0)
        for vectors, goals in zip(self.solver.vectors, self._at.goals, strict=True):
            vectors.goals[:] = goals
        for place, loaded in enumerate(self.stream()):
            with self.times.counting("solve_s"):
                self._step(loaded.group, place)

    def _step(self, group: Group, place: int) -> None:
        """Work on a group, of this place among the groups; note its labels."""
        if self._factors is not None:
            scale_columns(group.indptr, group.indices, group.values, self._factors, group.sq_norm)
        self.labels.write(group.blocks, group.labels)
        if self.row_weights is not None and group.weights is not None:
            self.row_weights.write(group.blocks, group.weights)
        if self._has_all:
            for vectors in self.solver.vectors:
                vectors.find_free(group)
        self.solver.step(group, 1, place, len(self.groups), self._cut_short)

    def _scaled(self, k: int, before: Floats, out: Floats | None = None) -> Floats:
        """Return the weights that a round begins with, in the scale of its columns."""
        factors = np.ones(1) if self._factors is None else self._factors
        scaled: Floats = np.divide(before, factors[:, None], out=out)
        if self._at.free_biases:
            scaled[-1] = (before[-1] + self._at.free_biases[k].move) / factors[-1]
        return scaled

    def change(self, weights: Sequence[Floats]) -> list[Floats]:
        """Return what the rows of this part have changed in the weights."""
        found = []
        for k, (W, before) in enumerate(zip(self.weights, weights, strict=True)):
            changed = self._scaled(k, before)
            np.subtract(W, changed, out=changed)
            changed /= 1.0 if self._factors is None else self._factors[:, None]
            found.append(changed)
        return found

    def prove(self, candidates: Sequence[Sequence[Floats]], sampling: bool) -> ProofSums:
        """Return what the rows contribute to certificates; arguments as for `certify`.

        The first candidate is what the weights are here.
        """
        proofs = []
        for k, vectors in enumerate(self.solver.vectors):
            pair = [vectors.W]
            if len(candidates) > 1:
                vectors.average[:, : vectors.width] = candidates[1][k]
                pair = [vectors.W, vectors.average]
            sides = self._at.free_biases[k].balance if self._at.free_biases else None
            n_problems = len(vectors.terms)
            recomputed = vectors.W[:0] if sampling else None
            proofs.append(Proof(vectors.W, pair, n_problems, recomputed, sides))
        for loaded in self.stream([self.sample] if sampling else None):
            share = SAMPLED_ROWS // self._job.n_parts
            enough = max(self.manifest.n_rows // _SAMPLED_SHARE, share)
            every = max(loaded.group.n_rows // enough, 1) if sampling else 1
            for vectors, proof in zip(self.solver.vectors, proofs, strict=True):
                vectors.certify_group(loaded.group, proof, every)
        return ProofSums(
            [proof.sums for proof in proofs],
            [proof.reach for proof in proofs],
            [
                Packed.of(proof.recomputed[:, : vectors.width], self._job.n_parts > 1)
                for vectors, proof in zip(self.solver.vectors, proofs, strict=True)
            ],
            proofs[0].n,
            self.times,
        )

    def dual_terms(self) -> list[Floats]:
        """Return what the rows contribute to the dual after each step, for each weight vectors."""
        steps = self._job.steps
        found = [np.zeros((len(steps), *v.terms.shape)) for v in self.solver.vectors]
        weights = None if self.row_weights is None else self.row_weights.all
        n, rows = self.manifest.n_rows, rows_without_entries(self.labels.all, weights)
        for start in range(0, n, _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            part = rows.some(some)
            for vectors, old, new, terms in zip(
                self.solver.vectors, self._before, self._after, found, strict=True
            ):
                for k, step in enumerate(steps):
                    alpha = stepped(old[some], new[some], np.full(vectors.width, step))
                    terms[k] += vectors.dual_terms(part, alpha)
        return found

    @property
    def weights(self) -> list[Floats]:
        """Views of what is worked on, float64[n_features + 1, width] of each weight vectors."""
        return [vectors.W[:, : vectors.width] for vectors in self.solver.vectors]

    @property
    def _after(self) -> list[Floats]:
        """Alpha of all rows as it is now, float64[n_rows, width] of each weight vectors."""
        return [start.alpha for start in self.solver.starts]

    def write(self) -> None:
        """Write alpha as it was and as it is now."""
        after = np.concatenate(self._after, axis=1)
        self.write_alpha(self._at.first, self._at.columns, self.alpha, after)

    def start(self, previous: Previous) -> list[Floats]:
        """Take over the alpha of an earlier run, made to fit, and add up the weights it makes.

        The alpha before and after the round are then the same.

        Returns
        -------
        list of float64[width]
            The weights that the bias had, if they are free.
        """
        parts = warm_parts(self.solver, previous)
        first = dict(zip(self.blocks, self.manifest.first_positions.tolist(), strict=False))
        for row_range in previous.row_ranges(self.session.manifest):
            if row_range.block in first:
                for part in parts:
                    part.take_alpha(row_range, first[row_range.block])
        for loaded in self.stream():
            group, rows = loaded.group, loaded.group.rows
            for part, vectors in zip(parts, self.solver.vectors, strict=True):
                new = part.feasible_set.fit(group, vectors.lines(group))
                vectors.alpha.write(group.blocks, new)
                part.add_rows(group, new)
                vectors.terms += vectors.dual_terms(rows, new)
        self.alpha[:] = np.concatenate(self._after, axis=1)
        if self._job.options.regularize_bias:
            return []
        for part in parts:
            part.take_bias()
        return [W[-1].copy() for W in self.weights]


class NewtonPart(Part):
    """A part in a pass of Newton's method, with alpha and their centers.

    Parameters
    ----------
    at : NewtonRound          the rounds before, and what is to be done
    V : sequence of float64[n_features + 1, P]    what models work on, of those that share a pass
    """

    def __init__(
        self,
        job: Job,
        session: Session,
        at: NewtonRound,
        number: int,
        V: Sequence[Floats],
        folder: Path,
    ) -> None:
        super().__init__(job, session, at.outer, at.stays, number, folder)
        self._at, bias = at, max(job.options.bias, 0.0)
        self._points = [replace(of, V=own.copy()) for of, own in zip(at.points, V, strict=True)]
        center, alpha = pairs_before(job, session.manifest, at, self.blocks)
        self.rows = []
        for k, numbers in enumerate(at.numbers):
            own = RowArray(folder / f"alpha-{k}.work", self.manifest, np.float64, len(numbers))
            part = RowPass(self.task.some(numbers), bias, own, session.manifest.n_features + 1)
            own.table[:] = alpha[:, numbers]
            if part.center is not None:
                part.center.table[:] = center[:, numbers]
            self.rows.append(part)

    def pass_over(self) -> PassReport:
        """Return what the rows contribute; write their alpha where a point is evaluated."""
        for part, points in zip(self.rows, self._points, strict=True):
            part.begin(points)
        for loaded in self.stream():
            with self.times.counting("solve_s"):
                for part, points in zip(self.rows, self._points, strict=True):
                    part.step(loaded.group, points)
        if self._at.evaluated and self._at.writes:
            self._write()
        found = [part.found for part in self.rows]
        return PassReport(found, self.manifest.n_rows, self.times)

    def _write(self) -> None:
        pairs: list[tuple[Floats, Floats]] = []
        for part, points in zip(self.rows, self._points, strict=True):
            columns, every = points.evaluated, slice(None)
            after = part.alpha.at(every, columns)
            pairs.append((after if part.center is None else part.center.at(every, columns), after))
        before, after = (np.concatenate(arrays, axis=1) for arrays in zip(*pairs, strict=True))
        self.write_alpha(self._at.first, self._at.evaluated, before, after)

    def discard(self) -> None:
        """Delete the scratch files."""
        for part in self.rows:
            part.discard()


P = TypeVar("P", bound=Part)


@contextlib.contextmanager
def _opened(job: Job, part: Callable[[Session, Path], P]) -> Iterator[P]:
    """Yield a part, made with the session of the run and a folder; no other is worked on here."""
    session = _session(job)
    try:
        with session.lock, temporary_folder(session.place.scratch) as folder:
            made = part(session, folder)
            try:
                yield made
            finally:
                made.discard()
    finally:
        session.free()


def _descending(
    job: Job, at: Round, number: int, curvature: Floats | None = None
) -> contextlib.AbstractContextManager[DescentPart]:
    factors = None if curvature is None else np.sqrt(curvature[:, 0])
    return _opened(
        job, lambda session, folder: DescentPart(job, session, at, number, factors, folder)
    )


def descend(
    job: Job,
    at: Round,
    number: int,
    weights: Sequence[Floats],
    curvature: Sequence[Floats] | None,
) -> Change:
    """Do the work of one part in the round that follows, and write its alpha.

    Parameters
    ----------
    job, at, number
        As for `DescentPart`.
    weights : sequence of float64[n_features + 1, width]
        Before the round.
    curvature : sequence of one float64[n_features + 1, 1], or None
        In the direction of each feature, over that of the rows of this part alone.
    """
    shared = None if curvature is None else curvature[0]
    with _located(), _descending(job, at, number, shared) as part:
        part.session.previous = None
        part.descend(weights)
        part.write()
        sent = [Packed.of(moved, job.n_parts > 1) for moved in part.change(weights)]
        report = PartReport(
            part.dual_terms(),
            [vectors.stats for vectors in part.solver.vectors],
            [vectors.entries for vectors in part.solver.vectors],
            part.times,
            sum(packed.nbytes for packed in sent),
        )
        return Change(sent, None, (report,))


def pass_over(job: Job, at: NewtonRound, number: int, V: Sequence[Floats]) -> PassReport:
    """Return what the rows of one part contribute to a pass of Newton's method; write their alpha.

    Arguments are as for `NewtonPart`.
    """
    opened = _opened(job, lambda session, folder: NewtonPart(job, session, at, number, V, folder))
    with _located(), opened as part:
        part.session.previous = None
        return part.pass_over()


def certify(
    job: Job,
    at: Round,
    number: int,
    candidates: Sequence[Sequence[Floats]],
    sampling: bool,
) -> ProofSums:
    """Return what the rows of one part of the next round contribute to certificates.

    Parameters
    ----------
    job, at, number
        As for `DescentPart`.
    candidates : sequence of sequences of float64[n_features + 1, width]
        Weights, of each weight vectors, and their averages, if these are candidates.
    sampling : bool
        Take some rows only, and do not recompute the weights.
    """
    with _located(), _descending(job, at, number) as part:
        for W, weights in zip(part.weights, candidates[0], strict=True):
            W[:] = weights
        return part.prove(candidates, sampling)


def start(job: Job, at: Round, number: int, sources: Sequence[tuple[Path, str]]) -> Started:
    """Write the alpha that an earlier run left for one part, as that of a round before the first.

    DamagedError is raised if it is not there, or what it left is not what was written.

    Parameters
    ----------
    at : Round                with -1 rounds
    number : int              of the part
    sources : sequence of (Path, str)   the folders of the earlier run, and checksums of what their
                              checkpoints say
    """
    with _located(), _descending(job, at, number) as part:
        session = part.session
        if session.previous is None:
            session.previous = _previous(job, sources)
        biases = part.start(session.previous)
        part.write()
        return Started(
            [Packed.of(W, job.n_parts > 1) for W in part.weights],
            [vectors.terms for vectors in part.solver.vectors],
            biases,
            part.times.bytes_read,
        )


def _previous(job: Job, sources: Sequence[tuple[Path, str]]) -> Previous:
    """Return the earlier run that some folders hold, once all of them do.

    DamagedError is raised if one does not show up.
    """

    def read(folder: Path, checksum: str) -> Previous:
        found = Checkpoint(folder)
        if found.checksum != checksum:
            raise _missing(folder, "not the checkpoint that the run is to start from")
        return Previous(found, job.options.cost)

    first, *others = (once_there(partial(read, *source), DamagedError) for source in sources)
    for other in others:
        first.join(other)
    return first


def _missing(folder: Path, what: str) -> DamagedError:
    return DamagedError(
        f"{folder}: has {what}",
        "all workers need the folder of the store, by the same path",
    )


def load(job: Job, outer: int, name: str, shapes: Sequence[tuple[int, int]]) -> list[Floats]:
    """Read weights from the checkpoint of a round: of each weight vectors, by the given shapes.

    DamagedError is raised if they do not show up.
    """

    def read() -> list[Floats]:
        checkpoint = Checkpoint(job.run_folder)
        if checkpoint.facts is None or checkpoint.facts.get("outer") != outer:
            raise _missing(job.run_folder, f"no checkpoint of round {outer}")
        arrays = {f"{name}-{k}": np.empty(shape) for k, shape in enumerate(shapes)}
        checkpoint.load(arrays)  # it may be the one before, of more models
        return list(arrays.values())

    with _located():
        return once_there(read, DamagedError)


def handed(weights: list[Floats]) -> list[Floats]:
    """Return weights that come with the task: those that no checkpoint has."""
    return weights
