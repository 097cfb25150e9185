"""From a Parquet table of clicks to predictions, in a memory cgroup, against two rivals.

    python bench/clicks.py FOLDER [--rows 10000000] [--memory 512M] [--steps read,ours,vw,sgd]

Makes the table that `make_clicks.py` describes, and another of `--test-rows` rows, unless they are
in FOLDER. Then, each as a process of its own, with a cold page cache, all within `--memory` but the
scanner and SGDClassifier, which take more:

* `read`: pyarrow reads all columns, by `ParquetFile.iter_batches` and by a scanner of a data set;
* `ours`: split, train to a certified gap, predict the test rows;
* `vw`: Vowpal Wabbit from its own text, in 1 pass and in several;
* `sgd`: scikit-learn's SGDClassifier on batches of FeatureHasher, one pass.

The log loss is that of the test rows. `--rival-python` is an interpreter that can import
vowpalwabbit and scikit-learn (default: this one). Results are printed, and stored in `--results`.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from limits import limited
from make_clicks import CARDINALITIES

BITS = 22
THREADS = 2
NUMBERS = [f"i{k + 1}" for k in range(13)]
CATEGORIES = [f"c{k + 1}" for k in range(len(CARDINALITIES))]
PROGRAM = [sys.executable, "-P", "-m", "blocklinear"]
BATCH_ROWS = 1 << 14


def parts(folder: Path) -> list[Path]:
    """Return the files of a table."""
    return sorted(folder.glob("*.parquet"))


def read(folder: Path, how: str) -> None:
    """Read all columns with pyarrow, and throw them away."""
    import pyarrow.dataset as ds

    pa.set_cpu_count(THREADS)
    pa.set_io_thread_count(THREADS)
    if how == "scanner":
        n_rows = sum(b.num_rows for b in ds.dataset(folder).to_batches())
    else:
        n_rows = 0
        for path in parts(folder):
            for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(BATCH_ROWS):
                n_rows += batch.num_rows
    print(json.dumps({"rows": n_rows}))


def log_loss(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the mean log loss of probabilities of class 1."""
    p = np.clip(probabilities, 1e-15, 1 - 1e-15)
    return float(-np.mean(np.where(labels == 1, np.log(p), np.log1p(-p))))


def labels_of(folder: Path) -> np.ndarray:
    """Return the labels of a table."""
    return np.concatenate([pq.read_table(p, columns=["click"])["click"] for p in parts(folder)])


def write_vw(folder: Path, out: Path) -> None:
    """Write a table as Vowpal Wabbit's text: numbers and categories have a namespace each."""
    with pa.OSFile(str(out), "wb") as stream:
        for path in parts(folder):
            for batch in pq.ParquetFile(path).iter_batches(1 << 16):
                labels = pc.if_else(pc.equal(batch["click"], 1), "1 |i", "-1 |i")
                texts = [labels]
                for name in NUMBERS:
                    text = pc.binary_join_element_wise(name, batch[name].cast(pa.string()), ":")
                    texts.append(pc.fill_null(text, f"{name}m"))
                texts.append(pa.array(["|c"] * len(batch)))
                for name in CATEGORIES:
                    text = pc.binary_join_element_wise(name, batch[name], "=")
                    texts.append(pc.fill_null(text, f"{name}=missing"))
                lines = pc.binary_join_element_wise(*texts, " ")
                stream.write(("\n".join(lines.to_pylist()) + "\n").encode())


def run_vw(arguments: str) -> None:
    """Run Vowpal Wabbit as a whole program would."""
    from vowpalwabbit import Workspace

    Workspace(arguments).finish()


def run_sgd(folder: Path, test: Path, cost: float, out: Path) -> None:
    """Train SGDClassifier in one pass; write the test loss after each quarter of the rows."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.linear_model import SGDClassifier

    hasher = FeatureHasher(1 << BITS, input_type="string", alternate_sign=False)
    first = next(pq.ParquetFile(parts(folder)[0]).iter_batches(100_000))
    moments = {}
    for name in NUMBERS:
        values = np.asarray(first[name].drop_null(), np.float64)
        moments[name] = float(values.mean()), float(values.std()) or 1.0

    def rows(batch: Any) -> Any:
        columns = []
        for name in CATEGORIES:
            text = pc.binary_join_element_wise(name, batch[name], "=")
            columns.append(pc.fill_null(text, f"{name}=missing").to_pylist())
        numbers = np.empty((len(batch), 2 * len(NUMBERS)))
        for k, name in enumerate(NUMBERS):
            mean, scale = moments[name]
            missing = np.asarray(batch[name].is_null())
            values = np.asarray(pc.fill_null(batch[name], 0), np.float64)
            numbers[:, 2 * k] = np.where(missing, 0.0, (values - mean) / scale)
            numbers[:, 2 * k + 1] = missing
        hashed = hasher.transform(zip(*columns, strict=True))
        return hstack([csr_matrix(numbers), hashed], format="csr")

    n_rows = sum(pq.ParquetFile(path).metadata.num_rows for path in parts(folder))
    # with the default rate, "optimal", the loss after one pass is that of no model
    model = SGDClassifier(
        loss="log_loss", alpha=1 / (cost * n_rows), learning_rate="constant", eta0=0.01,
        average=True,
    )  # fmt: skip
    began, testing, done, found = time.perf_counter(), 0.0, 0, []
    for path in parts(folder):
        for batch in pq.ParquetFile(path).iter_batches(BATCH_ROWS):
            model.partial_fit(rows(batch), np.asarray(batch["click"]), classes=[0, 1])
            done += len(batch)
            if done * 4 // n_rows > len(found):
                paused = time.perf_counter()
                shares = [
                    model.predict_proba(rows(b))[:, 1]
                    for p in parts(test)
                    for b in pq.ParquetFile(p).iter_batches(BATCH_ROWS)
                ]
                loss = log_loss(labels_of(test), np.concatenate(shares))
                testing += time.perf_counter() - paused
                seconds = paused - began - testing + (time.perf_counter() - paused)
                found.append({"rows": done, "seconds": round(seconds, 1), "log_loss": loss})
                out.write_text(json.dumps(found))


class Bench:
    """Runs steps and collects what they take."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.folder = args, args.folder
        self.train, self.test = self.folder / f"rows{args.rows}", self.folder / "test"
        self.results: list[dict[str, Any]] = []

    def run(
        self, name: str, command: list[Any], memory: str | None = "", **more: Any
    ) -> dict[str, Any]:
        """Run a command within a memory limit, by default ours; keep its seconds and memory."""
        with limited(memory=self.args.memory if memory == "" else memory) as limited_run:
            result = limited_run(command, capture=True)
        row = {
            "step": name, "seconds": result.wall_seconds, "cpu_seconds": result.cpu_seconds,
            "peak_anonymous_MiB": result.peak_anonymous_bytes >> 20, "status": result.returncode,
            "oom_kills": result.oom_kills, **more,
        }  # fmt: skip
        self.results.append(row)
        print(json.dumps(row), flush=True)
        if result.returncode:
            print(result.stderr[-2000:], file=sys.stderr)
        row["stdout"] = result.stdout
        return row

    def tell(self, name: str, **facts: Any) -> None:
        """Keep a fact."""
        self.results.append({"step": name, **facts})
        print(json.dumps(self.results[-1]), flush=True)

    def me(self, step: str, *arguments: Any, rival: bool = False) -> list[Any]:
        """Return the command of a step of this file in a process of its own."""
        python = self.args.rival_python if rival else sys.executable
        return [python, __file__, self.folder, "--child", json.dumps([step, *map(str, arguments)])]

    def make(self) -> None:
        """Make the tables that are not there."""
        for folder, rows, seed in ((self.train, self.args.rows, 0), (self.test, None, 1)):
            if not folder.exists():
                maker = Path(__file__).with_name("make_clicks.py")
                n = self.args.test_rows if rows is None else rows
                command = [sys.executable, maker, folder, "--rows", n, "--seed", seed]
                subprocess.run(list(map(str, command)), check=True)

    def read(self) -> None:
        """Read with pyarrow alone."""
        self.run("pyarrow iter_batches", self.me("read", self.train, "iter_batches"))
        self.run("pyarrow scanner", self.me("read", self.train, "scanner"), memory=None)

    def ours(self) -> None:
        """Split, train, predict."""
        args, folder = self.args, self.folder
        store, model, out = folder / "store", folder / "model", folder / "predictions.parquet"
        budget = ["--memory", args.budget, "-q"]
        self.run(
            "split",
            [*PROGRAM, "split", self.train, store, "--target", "click", "--hash-bits", BITS,
             "--standardize", "--force", *budget],
        )  # fmt: skip
        self.run(
            "train", [*PROGRAM, "train", store, model, "-s", 7, "-c", args.cost, "--gap", args.gap,
                      "--restart", "--log", folder / "run.log", *budget],
        )  # fmt: skip
        self.run("predict", [*PROGRAM, "predict", self.test, model, out, "-b", 1, *budget])
        shares = np.asarray(pq.read_table(out)["probability_1"])
        self.tell("log loss", ours=log_loss(labels_of(self.test), shares))

    def vw(self) -> None:
        """Train and test Vowpal Wabbit."""
        folder = self.folder
        texts = {}
        for name, table in (("train", self.train), ("test", self.test)):
            texts[name] = folder / f"{table.name}.vw"
            if not texts[name].exists():
                began = time.perf_counter()
                write_vw(table, texts[name])
                self.tell(f"write {name}.vw", seconds=round(time.perf_counter() - began, 1))
        model, out, cache = folder / "vw.model", folder / "vw.txt", folder / "vw.cache"
        for passes in self.args.vw_passes:
            several = f"--passes {passes} --holdout_off --cache_file {cache} -k"
            how = (
                f"-d {texts['train']} -b {BITS} --loss_function logistic -f {model} --quiet "
                + several * (passes > 1)
            )
            self.run(f"vw {passes} passes", self.me("run_vw", how, rival=True))
            cache.unlink(missing_ok=True)
            how = f"-t -i {model} -d {texts['test']} -p {out} --link logistic --quiet"
            self.run("vw predict", self.me("run_vw", how, rival=True))
            shares = np.loadtxt(out)
            self.tell("log loss", vw=log_loss(labels_of(self.test), shares), passes=passes)

    def sgd(self) -> None:
        """Train and test SGDClassifier."""
        out = self.folder / "sgd.json"
        command = self.me("run_sgd", self.train, self.test, self.args.cost, out, rival=True)
        self.run("sgd", command, memory=None)
        self.tell("sgd by rows", losses=json.loads(out.read_text()))


def main() -> None:
    """Run the steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--test-rows", type=int, default=1_000_000)
    parser.add_argument("--memory", default="512M", help="of the cgroup")
    parser.add_argument("--budget", default="400M", help="what the program is told")
    parser.add_argument("--cost", type=float, default=0.01)
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--steps", default="read,ours,vw,sgd")
    parser.add_argument("--vw-passes", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--rival-python", default=sys.executable)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        step, *given = json.loads(args.child)
        if step == "read":
            read(Path(given[0]), given[1])
        elif step == "run_vw":
            run_vw(*given)
        else:
            run_sgd(Path(given[0]), Path(given[1]), float(given[2]), Path(given[3]))
        return
    bench = Bench(args)
    args.folder.mkdir(parents=True, exist_ok=True)
    bench.make()
    for step in args.steps.split(","):
        getattr(bench, step)()
    if args.results:
        args.results.write_text(json.dumps(bench.results, indent=1) + "\n")


if __name__ == "__main__":
    main()
