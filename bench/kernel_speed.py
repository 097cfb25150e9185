"""Nonzeros a second against LIBLINEAR's own loop: `train.py kernel`.

LIBLINEAR's shared library is called with rows that lie ready in its own layout. It cannot be told
how many epochs to run, but a tolerance can be found at which it stops after a few, three or four.
In random order, it visits every row in the first two epochs (from the second on rows are shrunk as
they are visited) and in the last, before which it takes all rows back. So a run of a few epochs
less a run of one is so many epochs less one. Where there is one between, its rows may be a little
fewer; they are counted as whole, in LIBLINEAR's favour.
"""

import argparse
import ctypes
import ctypes.util
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import print_table, write_figures
from sklearn.datasets import load_svmlight_file

from blocklinear import BlockStore, SplitOptions, TrainOptions, split, train
from blocklinear.events import Event, OuterIteration

MEMORY_BYTES = 16 << 30
HINGE = 3
MOST_EPOCHS = 5
PRINT = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
NODE = np.dtype([("index", np.int32), ("unused", np.int32), ("value", np.float64)])
LIBRARIES = ("liblinear.so.4", "liblinear.so.6", "liblinear.so.5", "liblinear.so.3")


class Problem(ctypes.Structure):
    """``struct problem`` of linear.h."""

    _fields_ = [
        ("l", ctypes.c_int),
        ("n", ctypes.c_int),
        ("y", ctypes.c_void_p),
        ("x", ctypes.c_void_p),
        ("bias", ctypes.c_double),
    ]


class Parameter(ctypes.Structure):
    """``struct parameter`` of linear.h; zeros do for what older versions do not have."""

    _fields_ = [
        ("solver_type", ctypes.c_int),
        ("eps", ctypes.c_double),
        ("C", ctypes.c_double),
        ("nr_weight", ctypes.c_int),
        ("weight_label", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("p", ctypes.c_double),
        ("nu", ctypes.c_double),
        ("init_sol", ctypes.c_void_p),
        ("regularize_bias", ctypes.c_int),
    ]


class Liblinear:
    """The library, and the rows of a problem in its layout, of 16 bytes a nonzero.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix
    y : float64[n_rows]
    cost : float

    Raises
    ------
    SystemExit
        If the library is not installed.
    """

    def __init__(self, X: Any, y: np.ndarray, cost: float) -> None:
        for name in (ctypes.util.find_library("linear"), *LIBRARIES):
            try:
                self._library = ctypes.CDLL(name) if name else None
            except OSError:
                continue
            if self._library is not None:
                break
        else:
            raise SystemExit("LIBLINEAR's shared library is not installed (liblinear4 in Debian)")
        self.version = ctypes.c_int.in_dll(self._library, "liblinear_version").value
        self._library.train.restype = ctypes.c_void_p
        self._said: list[bytes] = []
        self._print = PRINT(self._said.append)
        self._library.set_print_string_function(self._print)
        self._clib = ctypes.CDLL(None)
        n_rows, n_features = X.shape
        rows = np.repeat(np.arange(n_rows), np.diff(X.indptr))
        self._nodes = np.zeros(X.nnz + n_rows, NODE)
        self._nodes["index"] = -1  # what ends a row
        self._nodes["index"][np.arange(X.nnz) + rows] = X.indices + 1
        self._nodes["value"][np.arange(X.nnz) + rows] = X.data
        starts = X.indptr[:-1].astype(np.int64) + np.arange(n_rows)
        self._x = self._nodes.ctypes.data + starts * NODE.itemsize
        self._y = np.ascontiguousarray(y, np.float64)
        self._problem = Problem(n_rows, n_features, self._y.ctypes.data, self._x.ctypes.data, -1.0)
        self._cost = cost

    def train(self, tolerance: float) -> tuple[float, int]:
        """Train; return the processor seconds and the number of epochs."""
        parameter = Parameter(HINGE, tolerance, self._cost, 0, None, None, 0.1, 0.0, None, 1)
        self._said.clear()
        self._clib.srand(1)
        began = time.thread_time()
        model = self._library.train(ctypes.byref(self._problem), ctypes.byref(parameter))
        seconds = time.thread_time() - began
        self._library.free_and_destroy_model(ctypes.byref(ctypes.c_void_p(model)))
        said = b"".join(self._said)
        return seconds, int(said.split(b"#iter = ")[1].split()[0])

    def few_epochs(self) -> tuple[float, int]:
        """Return a tolerance that ends training after as few epochs as can be, and how many."""
        for tolerance in np.geomspace(20.0, 0.1, 60):
            epochs = self.train(tolerance)[1]
            if epochs > 1:
                break
        if not 1 < epochs <= MOST_EPOCHS:
            raise SystemExit(f"LIBLINEAR runs {epochs} epochs, 2 to {MOST_EPOCHS} would do; --cost")
        return float(tolerance), epochs


class Clock:
    """Notes when outer iterations end, in processor seconds of the thread that solves."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def __call__(self, event: Event) -> None:
        """Note the time."""
        if isinstance(event, OuterIteration) and not event.certified:
            self.ends.append(time.thread_time())


def ours(store: BlockStore, cost: float, epochs: int) -> float:
    """Return the seconds of our epochs but the first, over all rows in memory, permuted."""
    clock = Clock()
    options = TrainOptions(
        cost=cost, selection="permute", gap=1e-12, max_outer=epochs + 1, memory_bytes=MEMORY_BYTES,
        group=len(store.manifest.blocks),
    )  # fmt: skip
    train(store, options, clock)
    return clock.ends[epochs - 1] - clock.ends[0]


def kernel(args: argparse.Namespace) -> int:
    """Time a few epochs of both, all but the first, in turn."""
    seconds: dict[str, list[float]] = {"blocklinear": [], "LIBLINEAR": []}
    X, y = load_svmlight_file(str(args.source))
    theirs = Liblinear(X, y, args.cost)
    tolerance, epochs = theirs.few_epochs()
    with tempfile.TemporaryDirectory(dir=args.source.absolute().parent) as folder:
        store = split([args.source], Path(folder) / "store", SplitOptions(blocks=4))
        for turn in range(args.runs + 1):  # the first warms and is not counted
            taken = {"blocklinear": ours(store, args.cost, epochs)}
            once, first = theirs.train(1e9)
            more, last = theirs.train(tolerance)
            if (first, last) != (1, epochs):
                raise SystemExit(f"LIBLINEAR ran {first} and {last} epochs, not 1 and {epochs}")
            taken["LIBLINEAR"] = more - once
            for name, found in taken.items():
                seconds[name] += [found / (epochs - 1)] * bool(turn)
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    rows = [
        (name, median, min(seconds[name]), max(seconds[name]), X.nnz / median / 1e6)
        for name, median in medians.items()
    ]
    print(f"{X.shape[0]} rows, {X.shape[1]} features, {X.nnz} nonzeros")
    print(f"LIBLINEAR {theirs.version}, epochs 2 to {epochs}, hinge loss, C = {args.cost:g}")
    print_table(("one epoch", "median s", "least", "most", "10^6 nonzeros/s"), rows)
    ratio = medians["blocklinear"] / medians["LIBLINEAR"]
    print(f"ours / theirs {ratio:.3f}, in processor seconds of the thread that solves")
    facts = {"source": args.source.name, "nnz": X.nnz, "cost": args.cost, "epochs": epochs}
    write_figures(args.out, "kernel", {**facts, "ratio": ratio, "seconds": seconds})
    return 0


def add_parsers(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command of this file."""
    parser = commands.add_parser(
        "kernel", parents=[shared], help="nonzeros a second against LIBLINEAR's loop"
    )
    parser.add_argument("source", type=Path, metavar="FILE.svm", help="two classes")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cost", type=float, default=1.0)
    parser.set_defaults(run=kernel)
