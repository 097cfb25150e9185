"""Guard what training costs, by counts that do not depend on the machine.

    python bench/guard.py                             compare with the expected counts
    python bench/guard.py --update --reason "TEXT"    make the counts found the expected ones

Small problems of all kinds are split and trained, each with several seeds: bundled sets, and
generated ones. Counted are, of all passes over the data or over a part of it:

* `solved`, `certified`, `other`: entries (nonzeros) of the rows that were given to kernels of
  solvers, to those of certificates, and to all others, each as often as it was;
* `passes`: of `solved`, those in passes over rows that stay in memory, as the run log has it;
* `steps`: rows worked on, for each model, as the run log has it;
* `bytes`: read from block files;
* `outer`: outer iterations;
* `certificates`: tried, and `in_vain`: those given up, or whose gap is above the one asked for.

The guard fails when a count, summed over seeds, is 10 % above the expected one, or at all above one
that is expected to be 0. Such a change is to be made in the same commit, by `--update` with the
reason, which the file of the expected counts (`bench/guard.json`) keeps. A count 10 % below is
reported; `--update` has the guard hold it from then on. Processors round differently, by which a
run may take an outer iteration more, as with another seed. So a count has changed only if it has by
two standard errors, as counts with several seeds tell these; most do not depend on the seed.
"""

import argparse
import contextlib
import inspect
import json
import math
import os
import pkgutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from generate import generate
from measuring import BENCH, BUNDLED, print_table
from shapes import make_shape

import blocklinear.solvers
from blocklinear import (
    AddOptions,
    BlockStore,
    SplitOptions,
    TextOptions,
    TrainOptions,
    add,
    cross_validate,
    split,
    train,
)
from blocklinear.events import Event, OuterIteration
from blocklinear.memory import PROCESS_BYTES, WEIGHT_VECTORS
from blocklinear.store.prefetch import GroupLoader

EXPECTED = BENCH / "guard.json"
TOLERATED, STANDARD_ERRORS = 1.1, 2.0
"""Times the expected count; and by how many of these it must differ."""
SEEDS = range(4)
KERNELS = "blocklinear.kernels."
ROOMY = 1 << 30
GRID = (0.01, 0.1, 1.0, 10.0)
Counts = dict[str, list[int]]
"""Of each seed."""
Expected = dict[str, Counts]


# -- Counting


class Counter:
    """Adds up what runs do: a listener, and what kernels and loaders are wrapped in.

    Parameters
    ----------
    gap : float
        What the runs are asked for.
    """

    def __init__(self, gap: float) -> None:
        names = (
            "solved",
            "passes",
            "certified",
            "other",
            "steps",
            "bytes",
            "outer",
            "certificates",
            "in_vain",
        )
        self.counts = dict.fromkeys(names, 0)
        self._gap = gap
        self._lock = threading.Lock()  # models are solved by several threads

    def __call__(self, event: Event) -> None:
        """Count an outer iteration, and its certificate if it has one."""
        if isinstance(event, OuterIteration):
            self.add("outer", 1)
            self.add("steps", event.steps)
            self.add("passes", event.pass_entries)
            self.add("certificates", event.certificates)
            granted = event.certified and event.gap <= self._gap
            self.add("in_vain", 0 if granted else event.certificates)

    def add(self, name: str, n: int) -> None:
        """Add to a count."""
        with self._lock:
            self.counts[name] += n


def entries(given: Mapping[str, Any]) -> int:
    """Return the entries of the rows that a kernel is given, each as often as it is."""
    if "packed" in given:
        which, _, _, words = given["packed"]
        return int((words.view(np.int64)[which + 2] >> 8).sum())
    if "rows" in given:
        starts, stops, *_ = given["rows"]
        lengths = stops - starts
    else:
        lengths = np.diff(given["indptr"])
    if "rising" in given:  # pairs of rows
        return int(lengths[given["rising"]].sum() + lengths[given["falling"]].sum())
    return int((lengths[given["order"]] if "order" in given else lengths).sum())


def counted(kernel: Callable[..., Any], counter: Counter) -> Callable[..., Any]:
    """Return a kernel that counts the entries it is given; itself if it is given none."""
    function = getattr(kernel, "py_func", kernel)
    signature = inspect.signature(function)
    names = signature.parameters.keys()
    if not names & {"rows", "indptr"} or "words" in names:
        return kernel  # words are packed rows, which are counted where they are worked on
    certifies = "certify" in function.__name__
    solves = names & {"order", "rising", "packed"}
    what = "certified" if certifies else "solved" if solves else "other"

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        counter.add(what, entries(signature.bind(*args, **named).arguments))
        return kernel(*args, **named)

    return call


def is_kernel(value: object) -> bool:
    """Say whether something is a function of the package of kernels."""
    function = getattr(value, "py_func", value)
    return inspect.isfunction(function) and function.__module__.startswith(KERNELS)


@contextlib.contextmanager
def counting(counter: Counter) -> Iterator[None]:
    """Count entries and bytes until the end of the block.

    The modules of the library outside `kernels` get other names for these: a namespace in place of
    a module, wrapped kernels in place of kernels. What kernels call themselves stays as it is.
    """
    replaced: list[tuple[ModuleType, str, object]] = []
    stream = GroupLoader.stream

    def streamed(self: GroupLoader, *args: Any, **named: Any) -> Iterator[Any]:
        for loaded in stream(self, *args, **named):
            counter.add("bytes", loaded.group.bytes_read if loaded.load_s else 0)
            yield loaded

    def instead(value: object) -> object:
        if isinstance(value, ModuleType) and value.__name__.startswith(KERNELS):
            return SimpleNamespace(**{k: instead(v) for k, v in vars(value).items()})
        return counted(value, counter) if is_kernel(value) else value  # type: ignore[arg-type]

    for module_info in pkgutil.walk_packages(blocklinear.solvers.__path__, "blocklinear.solvers."):
        import_module(module_info.name)  # or a run would, in the middle
    for name, module in list(sys.modules.items()):
        if not name.startswith("blocklinear.") or name.startswith(KERNELS):
            continue
        for key, value in list(vars(module).items()):
            if (other := instead(value)) is not value:
                replaced.append((module, key, value))
                setattr(module, key, other)
    GroupLoader.stream = streamed  # type: ignore[method-assign]
    try:
        yield
    finally:
        GroupLoader.stream = stream  # type: ignore[method-assign]
        for module, key, value in replaced:
            setattr(module, key, value)


# -- The problems


class Rows:
    """The data of the problems, made when they are first asked for, below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stores: dict[tuple[str, int, int], BlockStore] = {}

    def text(self, name: str) -> Path:
        """Return LIBSVM text: a bundled set, or generated rows."""
        bundled = BUNDLED / f"{name}.train.svm.bz2"
        if bundled.exists():
            return bundled
        path = self._folder / f"{name}.svm"
        if not path.exists():
            n_classes, n_rows, n_features, seed = {
                "text": (0, 5000, 250_000, 1), "more text": (0, 500, 250_000, 2),
                "topics": (8, 2000, 40_000, 3),
            }[name]  # fmt: skip
            generate(make_shape("text", seed, n_classes, n_features), path, n_rows=n_rows)
        return path

    def store(self, name: str, blocks: int, seed: int) -> BlockStore:
        """Return a store; those that are asked for again are not made again."""
        key = name, blocks, seed
        if key not in self._stores:
            self._stores[key] = self.new_store(*key)
        return self._stores[key]

    def new_store(self, name: str, blocks: int, seed: int) -> BlockStore:
        """Make a store of one's own."""
        folder = Path(tempfile.mkdtemp(dir=self._folder)) / "store"
        text = TextOptions(threads=2, memory_bytes=ROOMY)
        return split([self.text(name)], folder, SplitOptions(text=text, blocks=blocks, seed=seed))


@dataclass(frozen=True)
class Case:
    """A problem to be trained, and how.

    With `spare_bytes` memory holds so much more than what the program and the weights take, and the
    store has 40 blocks; without, it holds all rows.
    """

    name: str
    rows: str
    options: TrainOptions
    spare_bytes: int | None = None
    models: int = 1
    kind: str = "train"

    def count(self, rows: Rows, seed: int) -> dict[str, int]:
        """Train; what a case needs before that is not counted."""
        own = replace(self, options=replace(self.options, seed=seed))
        store, options = own._prepared(rows)
        counter = Counter(options.gap or 0.0)
        with counting(counter):
            if self.kind == "cv":
                cross_validate(store, options, n_folds=5, costs=GRID, listener=counter)
            else:
                train(store, options, counter)
        if not (counter.counts["solved"] and counter.counts["certified"]):
            raise SystemExit(f"{self.name}: kernels were called that the guard does not see")
        return counter.counts

    def _prepared(self, rows: Rows) -> tuple[BlockStore, TrainOptions]:
        key = self.rows, 40 if self.spare_bytes else 4, self.options.seed
        if self.kind != "warm":
            store = rows.store(*key)
            return store, self._asked(store)
        store = rows.new_store(*key)
        train(store, self._asked(store))
        text = TextOptions(threads=2, memory_bytes=ROOMY, index_base="auto")
        store = add(store, [rows.text(f"more {self.rows}")], AddOptions(text, blocks=4))
        return store, replace(self._asked(store), warm_start=True)

    def _asked(self, store: BlockStore) -> TrainOptions:
        vectors = (WEIGHT_VECTORS + (self.models > 1)) * self.models
        room = PROCESS_BYTES + 8 * vectors * (store.manifest.n_features + 1)
        memory = ROOMY if self.spare_bytes is None else room + self.spare_bytes
        return replace(self.options, memory_bytes=memory, run=self.kind)


def cases() -> list[Case]:
    """Return the problems."""
    # with one thread it does not matter which of two reads first
    one = TrainOptions(threads=1, checkpoint_s=3600.0, gap=1e-3)
    text, little = Case("", "text", one), Case("", "text", one, spare_bytes=8 << 20)

    def solver(number: int, gap: float = 1e-3, cost: float = 1.0) -> TrainOptions:
        return replace(one, solver=number, gap=gap, cost=cost)

    permute = replace(one, selection="permute", gap=1e-2)
    free: dict[str, Any] = {"bias": 1.0, "regularize_bias": False}
    one_class = replace(one, solver=21, nu=0.1, gap=1e-4)
    return [
        replace(text, name="hinge, text"),
        replace(text, name="hinge, text, C = 10", options=solver(3, cost=10.0)),
        Case("hinge, a9a", "a9a", one),
        Case("hinge, free bias, agaricus", "agaricus", replace(solver(3, 1e-4), **free)),
        Case("hinge, covtype, C = 10", "covtype20k_bin", solver(3, 1e-2, 10.0)),
        Case("hinge, a9a, permute", "a9a", permute),
        replace(text, name="squared hinge, text", options=solver(1)),
        Case("squared hinge, phishing", "phishing", solver(1, 1e-5)),
        replace(text, name="logistic, text", options=solver(7)),
        Case("logistic, a9a", "a9a", solver(7, 1e-4)),
        Case("regression, -s 12, phishing", "phishing", solver(12, 1e-4)),
        Case("regression, -s 13, phishing", "phishing", solver(13, 3e-4)),
        replace(text, name="one-class, text", options=replace(one_class, gap=5e-5)),
        Case("one-class, a9a", "a9a", replace(one_class, gap=3e-6)),
        Case("one-vs-rest, 8 topics", "topics", one),
        Case("Crammer-Singer, 8 topics", "topics", solver(4)),
        Case("5 folds x 4 C, phishing", "phishing", one, kind="cv"),
        Case("5 folds x 4 C, text", "more text", one, kind="cv"),
        replace(little, name="hinge, little memory"),
        replace(little, name="hinge, little memory, permute", options=permute),
        replace(little, name="squared hinge, little memory", options=solver(1)),
        replace(little, name="logistic, little memory", options=solver(7)),
        replace(little, name="one-class, little memory", options=one_class),
        Case("one-vs-rest, little memory", "topics", one, spare_bytes=6 << 20, models=8),
        Case("5 folds x 4 C, little memory", "topics", one, spare_bytes=6 << 20, models=8 * 20),
        replace(little, name="hinge, warm start", kind="warm"),
        replace(little, name="squared hinge, warm start", kind="warm", options=solver(1)),
    ]


def measure(wanted: Sequence[Case]) -> tuple[Expected, dict[str, float]]:
    """Train all, and return the counts of each, and its seconds with all seeds."""
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        by_seed = list(processes.map(partial(_with_seed, wanted), SEEDS))
    found: Expected = {
        case.name: {what: [of[k][0][what] for of in by_seed] for what in by_seed[0][k][0]}
        for k, case in enumerate(wanted)
    }
    return found, {case.name: sum(of[k][1] for of in by_seed) for k, case in enumerate(wanted)}


def _with_seed(wanted: Sequence[Case], seed: int) -> list[tuple[dict[str, int], float]]:
    """Train all with a seed, and return the counts and the seconds of each."""
    found = []
    for name in ("training.loop", "selection.cross_validation", "model.predict"):
        import_module(f"blocklinear.{name}")  # counted is what is there
    with tempfile.TemporaryDirectory() as folder:
        rows = Rows(Path(folder))
        for case in wanted:
            began = time.perf_counter()
            counts = case.count(rows, seed)
            found.append((counts, time.perf_counter() - began))
    return found


# -- Comparing


@dataclass(frozen=True)
class Change:
    """A count that differs by 10 % or more from the expected one, both of all seeds."""

    case: str
    what: str
    expected: int
    found: int

    @property
    def grown(self) -> bool:
        """Whether it is larger."""
        return self.found > self.expected

    @property
    def row(self) -> tuple[str, str, int, int, str]:
        """The same for a table."""
        ratio = f"{self.found / self.expected:.2f}" if self.expected else "new"
        return self.case, self.what, self.expected, self.found, ratio


def compare(expected: Expected, found: Expected) -> list[Change]:
    """Return what changed by 10 % or more; of a case that is not known nothing is expected."""
    changes = []
    for case, counts in found.items():
        for what, of_seeds in counts.items():
            known = expected.get(case, {}).get(what, [0])
            before, n = sum(known), sum(of_seeds)
            much = n >= TOLERATED * before or n * TOLERATED <= before
            error = 0.0 if known == [0] else math.sqrt(_variance(known) + _variance(of_seeds))
            if much and abs(n - before) > STANDARD_ERRORS * error:
                changes.append(Change(case, what, before, n))
    return changes


def _variance(of_seeds: list[int]) -> float:
    """Return the variance of the sum of counts, estimated from how much they differ."""
    return len(of_seeds) * float(np.var(of_seeds, ddof=1))


def load(path: Path) -> dict[str, Any]:
    """Return the expected counts, and the reasons for what grew."""
    return json.loads(path.read_text()) if path.exists() else {"counts": {}, "grown": []}  # type: ignore[no-any-return]


def updated(known: Mapping[str, Any], found: Expected, reason: str) -> dict[str, Any]:
    """Return what the file is to hold: all counts as found, and the reason for those that grew.

    Raises
    ------
    SystemExit
        If there is no reason for a known count that grew.
    """
    grown = [
        change
        for change in compare(known["counts"], found)
        if change.grown and change.what in known["counts"].get(change.case, ())
    ]
    if grown and not reason:
        raise SystemExit("counts have grown: give --reason with --update")
    entry = {
        "reason": reason,
        "counts": [f"{c.case}: {c.what} {c.expected} to {c.found}" for c in grown],
    }
    return {"counts": found, "grown": [*known["grown"], *([entry] if grown else [])]}


def dump(path: Path, known: Mapping[str, Any]) -> None:
    """Write the file, a case a line."""
    counts = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in known["counts"].items())
    reasons = json.dumps(known["grown"], indent=1)
    path.write_text(f'{{"counts": {{\n{counts}\n}},\n"grown": {reasons}}}\n')


def judged(known: Mapping[str, Any], found: Expected, whole: bool = True) -> int:
    """Print what changed; return 1 if a count grew, or if the file has cases that are no more."""
    changes = compare(known["counts"], found)
    grown = [change for change in changes if change.grown]
    gone = [case for case in known["counts"] if case not in found] if whole else []
    header = ("case", "count", "expected", "found", "ratio")
    command = 'python bench/guard.py --update --reason "..."'
    if grown:
        print("\nthese have grown by 10 % or more:")
        print_table(header, [change.row for change in grown])
        print(f"make them smaller, or say why they have to be: {command}")
    if len(changes) > len(grown):
        print("\nthese are 10 % or more below what was expected:")
        print_table(header, [change.row for change in changes if not change.grown])
        print("to have them held there: python bench/guard.py --update")
    for case in gone:
        print(f"{case}: expected, but there is no such case: {command}")
    if not (grown or gone):
        print(f"{len(found)} cases, no count has grown by 10 %")
    return 1 if grown or gone else 0


def main(argv: list[str] | None = None) -> int:
    """Measure and compare; return 0 unless a count grew."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="write what is found")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why counts grew")
    parser.add_argument("--only", metavar="TEXT", help="cases whose names hold it")
    parser.add_argument("--expected", type=Path, default=EXPECTED, metavar="FILE")
    parser.add_argument("-v", "--verbose", action="store_true", help="all counts, and seconds")
    args = parser.parse_args(argv)
    if args.update and args.only:
        parser.error("--update takes all cases")
    wanted = [case for case in cases() if (args.only or "") in case.name]
    (found, seconds), known = measure(wanted), load(args.expected)
    if args.verbose:
        header = ("case", *next(iter(found.values()), {}), "seconds")
        rows = [(k, *map(sum, v.values()), round(seconds[k], 2)) for k, v in found.items()]
        print_table(header, rows)
    if args.update:
        dump(args.expected, updated(known, found, args.reason))
        print(f"written: {args.expected}")
        return 0
    return judged(known, found, whole=not args.only)


if __name__ == "__main__":
    sys.exit(main())
