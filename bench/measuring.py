"""What the measurements of training share: data with two classes, tables, figures on disk."""

import bz2
import json
import lzma
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from generate import generate
from shapes import make_shape

from blocklinear.model.linear import LinearModel
from blocklinear.model.predict import predict_stream

BENCH = Path(__file__).parent
BUNDLED = BENCH.parent / "tests" / "data"
PROGRAM = [sys.executable, "-m", "blocklinear.cli.main"]
TEXT = "generated text"


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns that line up; text to the left, numbers to the right."""
    cells = [[_shown(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    for line in (list(header), *cells):
        parts = [
            text.rjust(width) if re.match(r"[-+>]?\d", text) else text.ljust(width)
            for text, width in zip(line, widths, strict=True)
        ]
        print("  ".join(parts).rstrip(), flush=True)


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write_figures(folder: Path, name: str, figures: Mapping[str, Any]) -> None:
    """Store figures as FOLDER/NAME.json, with the machine they were measured on."""
    machine = {"cpus": len(os.sched_getaffinity(0)), "processor": _processor()}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"machine": machine, **figures}, indent=1, default=str) + "\n")
    print(f"stored in {path}", file=sys.stderr)


def _processor() -> str:
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def sources(names: Iterable[str]) -> dict[str, Path]:
    """Return where real data sets lie: bundled, or in the folder BLOCKLINEAR_DATA.

    Raises
    ------
    SystemExit
        If one is in neither.
    """
    found = {}
    for name in names:
        places = [BUNDLED, Path(os.environ.get("BLOCKLINEAR_DATA", BUNDLED))]
        paths = [path for place in places for path in sorted(place.glob(f"{name}*.train.svm.*"))]
        if not paths:
            raise SystemExit(f"{name} is not found: set BLOCKLINEAR_DATA to the folder that has it")
        found[name] = paths[0]
    return found


def open_rows(path: Path) -> IO[bytes]:
    """Open LIBSVM text, compressed or not."""
    return {".xz": lzma.open, ".bz2": bz2.open}.get(path.suffix, open)(path, "rb")  # type: ignore[operator,no-any-return]


def two_classes(source: Path, target: Path, by_class: bool = False) -> Path:
    """Copy LIBSVM text with the largest class against the rest as +1 and -1, and return it.

    Parameters
    ----------
    source, target : Path
    by_class : bool
        Write all rows of one class first.
    """
    with open_rows(source) as stream:
        counts = Counter(line.split(None, 1)[0] for line in stream if line.strip())
    largest = max(counts, key=lambda label: (counts[label], float(label)))
    with open(target, "wb") as out:
        for wanted in (True, False) if by_class else (None,):
            with open_rows(source) as stream:
                for line in stream:
                    label, _, rest = line.strip().partition(b" ")
                    if not label or wanted not in (None, label == largest):
                        continue
                    out.write((b"+1 " if label == largest else b"-1 ") + rest + b"\n")
    return target


def generated_text(path: Path, n_bytes: int, seed: int = 1) -> Path:
    """Write text-like rows of so many bytes, and return the file."""
    generate(make_shape("text", seed), path, n_bytes=n_bytes)
    return path


def compile_kernels(folder: Path) -> None:
    """Run every kernel once, so that none is compiled while it is timed."""
    source = BUNDLED / "heart_scale.train.svm.bz2"
    store, model = folder / "warm", folder / "warm.model"
    for command in (
        ["split", source, store, "--blocks", "4"],
        ["train", store, model, "--group", "2"],
        ["train", store, model, "--method", "pegasos", "--max-outer", "2"],
    ):
        command = [*PROGRAM, *command, "-q"]
        run = subprocess.run(command, check=False, capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(run.stderr)


def logged(path: Path) -> list[dict[str, Any]]:
    """Return the outer iterations of a run log."""
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in events if event["event"] == "outer"]


def hinge_primal(model: Path, text: Path, cost: float) -> float:
    """Return 1/2 |w|^2 + C sum max(0, 1 - y w.x) of a two-class model, from its decisions."""
    made = LinearModel.load(model)
    with tempfile.TemporaryDirectory() as folder:
        decisions_path = Path(folder) / "decisions"
        predict_stream(made, [str(text)], decisions_path, decision=True)
        decisions = np.loadtxt(decisions_path, ndmin=1)
    with open_rows(text) as stream:
        labels = np.array([float(line.split(None, 1)[0]) for line in stream if line.strip()])
    slack = np.maximum(0.0, 1.0 - np.where(labels == made.labels[0], 1.0, -1.0) * decisions)
    norm = float((made.weights**2).sum() + (made.bias_weights**2).sum())
    return 0.5 * norm + cost * float(slack.sum())


def hinge_optimum(text: Path, cost: float, tolerance: float, cache: Path) -> dict[str, float]:
    """Return P and D of a long run of LIBLINEAR, kept in the file `cache`.

    Parameters
    ----------
    text : Path
        Two classes, not compressed.
    cost, tolerance : float
        LIBLINEAR's ``-c`` and ``-e``.
    cache : Path
        JSON, by name, size and time of the text, C and tolerance.
    """
    known = json.loads(cache.read_text()) if cache.exists() else {}
    status = text.stat()
    key = f"{text.name} {status.st_size} {status.st_mtime_ns} -s 3 -c {cost:g} -e {tolerance:g}"
    if key not in known:
        with tempfile.TemporaryDirectory(dir=text.parent) as folder:
            model = Path(folder) / "model"
            command = liblinear(text, model, cost, tolerance)
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found = re.search(r"#iter = (\d+)[^=]*Objective value = (\S+)", done.stdout)
            assert found is not None, done.stdout
            known[key] = {
                "primal": hinge_primal(model, text, cost),
                "dual": -float(found[2]),
                "iterations": int(found[1]),
            }
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps(known, indent=1) + "\n")
    return known[key]


def liblinear(text: Path, model: Path, cost: float, tolerance: float | None = None) -> list[str]:
    """Return the command of LIBLINEAR, hinge loss; its own tolerance if none is given."""
    stop = [] if tolerance is None else ["-e", f"{tolerance:g}"]
    return ["liblinear-train", "-s", "3", "-c", f"{cost:g}", *stop, str(text), str(model)]
