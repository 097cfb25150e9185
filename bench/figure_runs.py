"""The runs behind `figures.py`: timed on disks of two speeds, and evaluated off the clock.

A run's course does not depend on the speed of the disk, nor on being resumed. So it is run twice:
once within the limits, for the seconds of each outer iteration, and once without, stopped at some
outer iterations to ask for the exact objective and the accuracy of the model as it is there.
"""

import math
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from limits import limited, parse_limit
from measuring import PROGRAM, generated_text, logged
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from blocklinear import BlockStore, LinearModel, TrainOptions, train

DISKS = {"fast disk": None, "disk of 100 MB/s": 100_000_000}
POINTS = (1, 2, 3, 4, 6, 8, 11, 15, 20, 30, 45, 70, 100, 150, 220, 330, 500, 750, 1000)
"""Outer iterations after which a model is evaluated."""


@dataclass(frozen=True)
class Method:
    """A way to train: what it is called, the store it reads, and its options."""

    name: str
    store: str
    selection: str = "permute"
    group: int | None = None
    epochs: int | None = 1
    method: str = "dual"
    pegasos_batch: int | None = 1

    def options(self, lab: "Lab", run: str) -> TrainOptions:
        """Return the options, but for when to stop."""
        return TrainOptions(
            method=self.method, selection=self.selection, group=self.group, epochs=self.epochs,
            pegasos_batch=self.pegasos_batch, memory_bytes=lab.memory_bytes, gap=1e-12, run=run,
        )  # fmt: skip

    def arguments(self) -> list[str]:
        """Return the same options for the command line."""
        epochs = "auto" if self.epochs is None else str(self.epochs)
        found = ["--selection", self.selection, "--method", self.method, "--epochs", epochs]
        if self.group is not None:
            found += ["--group", str(self.group)]
        if self.method == "pegasos":
            found += ["--pegasos-batch", str(self.pegasos_batch or "block")]
        return found


@dataclass
class Curve:
    """What a method reached, and when, on one disk; without the seconds of the split."""

    seconds: list[float] = field(default_factory=list)
    primal: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)


@dataclass
class Lab:
    """The data, the limits, and what is known so far.

    Attributes
    ----------
    folder : Path
        On a disk that can be slowed down.
    memory : str
        Of each run, page cache included.
    seconds : float
        That a timed run may take.
    """

    folder: Path
    memory: str
    seconds: float
    split_seconds: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int:
        """The limit as a number."""
        return parse_limit(self.memory)

    def make_text(self, n_bytes: int) -> None:
        """Write the training rows, the same by class, and the test rows."""
        text = generated_text(self.folder / "shuffled.svm", n_bytes)
        with open(text, "rb") as rows, open(self.folder / "by-class.svm", "wb") as out:
            for sign in (b"+", b"-"):
                rows.seek(0)
                out.writelines(row for row in rows if row.startswith(sign))
        generated_text(self.folder / "test.svm", max(n_bytes // 20, 2_000_000), seed=2)

    def split(self, name: str, source: str, *options: str) -> None:
        """Make a store on each disk, and note how long it took."""
        for disk, read_bps in DISKS.items():
            store = self.folder / name
            shutil.rmtree(store, ignore_errors=True)
            command = [*PROGRAM, "split", self.folder / source, store, "--memory", self.memory]
            with limited(self.memory, read_bps, disk_of=self.folder) as run:
                result = run([*command, "-q", *options], capture=True)
            if result.returncode:
                raise SystemExit(f"split {name}: rc {result.returncode}: {result.stderr}")
            self.split_seconds[name, disk] = result.wall_seconds

    def times(self, method: Method, disk: str) -> list[float]:
        """Return the seconds at the end of each outer iteration."""
        log = self.folder / "run.jsonl"
        log.unlink(missing_ok=True)
        command = [
            *PROGRAM, "train", self.folder / method.store, self.folder / "model", "-q", "--run",
            "timed", "--memory", self.memory, "--gap", "1e-12", "--time-limit", str(self.seconds),
            "--max-outer", str(POINTS[-1] + 1), "--log", log, *method.arguments(),
        ]  # fmt: skip
        with limited(self.memory, DISKS[disk], disk_of=self.folder) as run:
            result = run(command, capture=True, timeout=4 * self.seconds + 60)
        if result.returncode:
            raise SystemExit(f"{method.name}: rc {result.returncode}: {result.stderr}")
        # the last has its certificate on the clock, unless there is no other
        found = [event["seconds"] for event in logged(log)]
        return found[:-1] or found

    def values(self, method: Method, most_outer: int) -> dict[int, tuple[float, float]]:
        """Return P and the accuracy after some outer iterations, up to `most_outer`."""
        store = BlockStore.open(self.folder / method.store)
        found: dict[int, tuple[float, float]] = {}
        options = vars(method.options(self, "evaluated"))
        started = time.perf_counter()
        for outer in POINTS:
            if outer > most_outer or time.perf_counter() - started > 1.5 * self.seconds:
                break
            asked = options | {"max_outer": outer, "resume": bool(found), "checkpoint_s": math.inf}
            model = train(store, TrainOptions(**asked))
            found[outer] = model.metadata["certificate"]["primal"], self.accuracy(model)
        shutil.rmtree(store.folder / "runs")
        return found

    def accuracy(self, model: LinearModel) -> float:
        """Return the share of test rows that are classified correctly."""
        X, y = self._test_rows()
        return float(np.mean(model.predict(X[:, : model.n_features]) == y))

    def _test_rows(self) -> tuple[sparse.csr_matrix, np.ndarray]:
        if not hasattr(self, "_test"):
            self._test = load_svmlight_file(str(self.folder / "test.svm"))
        return self._test

    def reference(self, store: str) -> tuple[float, float]:
        """Return the P of a long run, proven to 1e-6 of it, and its accuracy."""
        options = TrainOptions(gap=1e-6, memory_bytes=8 << 30, time_limit_s=60.0, run="reference")
        model = train(BlockStore.open(self.folder / store), options)
        proof = model.metadata["certificate"]
        print(f"P* {proof['primal']:.9g}, gap {proof['gap']:.1e}", file=sys.stderr)
        return proof["primal"], self.accuracy(model)

    def curves(self, method: Method) -> dict[str, Curve]:
        """Return what a method reaches on each disk."""
        times = {disk: self.times(method, disk) for disk in DISKS}
        values = self.values(method, max(map(len, times.values())))
        found = {}
        for disk, seconds in times.items():
            curve = found[disk] = Curve()
            for outer, (primal, accuracy) in values.items():
                if outer <= len(seconds):
                    curve.seconds.append(seconds[outer - 1])
                    curve.primal.append(primal)
                    curve.accuracy.append(accuracy)
        least = min(curve.primal[-1] for curve in found.values() if curve.primal)
        print(f"{method.name} ({method.store}): {len(values)} points, P {least:.7g}", flush=True)
        return found
