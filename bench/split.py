"""Split against other programs reading the same file: time, memory, size.

    python bench/split.py FILE.svm [--runs 5] [--memory 256M] [--json OUT.json]
    python bench/split.py FILE.svm --growth [--runs 3]

Runs take turns (A B C A B C ...), so a machine that drifts slows all alike; medians and the ratio
of each program's median to ours are printed. A program that is not installed is left out and said.

* LIBLINEAR: `liblinear-train -s 3 -e 1e9`: reading, and the one epoch it cannot be kept from.
* Vowpal Wabbit: one pass that writes its cache (`-c -k`); its text is made first, untimed.
  VW_PYTHON names a Python that has the package vowpalwabbit, if this one has not.
* scikit-learn: `load_svmlight_file`.

With --growth, our split alone of the file given once, four and sixteen times over: seconds against
rows, by themselves and net of what starting takes (the split of a file of one row).
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from limits import limited
from measuring import PROGRAM

MAX_SKLEARN_BYTES = 400 << 20


def vowpal_wabbit() -> list[str] | None:
    """Return how to call Vowpal Wabbit, None if it is not there."""
    if shutil.which("vw"):
        return ["vw"]
    python = os.environ.get("VW_PYTHON", sys.executable)
    found = subprocess.run([python, "-c", "import vowpalwabbit"], capture_output=True, check=False)
    return [python, "-m", "vowpalwabbit"] if found.returncode == 0 else None


def our_split(sources: list[Path], store: Path, memory: str) -> list[str]:
    """Return the command that splits into a new store."""
    return [*PROGRAM, "split", *map(str, sources), str(store), "--memory", memory, "-q"]


def commands(source: Path, folder: Path, memory: str) -> dict[str, list[str]]:
    """Return the programs to compare, by name; ours first."""
    store = folder / "store"
    found = {"blocklinear": our_split([source], store, memory)}
    if shutil.which("liblinear-train"):
        model = str(folder / "model")
        found["liblinear"] = ["liblinear-train", "-s", "3", "-e", "1e9", "-q", str(source), model]
    vw = vowpal_wabbit()
    if vw:
        text = folder / "rows.vw"
        with open(text, "wb") as stream:
            subprocess.run(["sed", "s/ / | /", str(source)], stdout=stream, check=True)
        cache = str(folder / "cache")
        found["vw"] = [
            *vw,
            "-d",
            str(text),
            "-k",
            "--cache_file",
            cache,
            "--loss_function",
            "hinge",
        ]
        found["vw"].append("--quiet")
    if source.stat().st_size <= MAX_SKLEARN_BYTES:
        code = "import sys, sklearn.datasets as d; d.load_svmlight_file(sys.argv[1])"
        found["sklearn"] = [sys.executable, "-c", code, str(source)]
    for name in {"liblinear", "vw", "sklearn"} - set(found):
        print(f"left out: {name} (not installed, or the file is too large for it)", file=sys.stderr)
    return found


def growth(source: Path, folder: Path, args: argparse.Namespace) -> None:
    """Split the file once, four and sixteen times over; print seconds against rows."""
    one_row = folder / "row.svm"
    with open(source, "rb") as stream:
        one_row.write_bytes(stream.readline())
    sources = {0: [one_row]} | {times: [source] * times for times in (1, 4, 16)}
    seconds: dict[int, list[float]] = {times: [] for times in sources}
    for turn in range(args.runs + 1):  # the first warms the page cache and is not counted
        for times, files in sources.items() if turn else [(0, [one_row]), (1, [source])]:
            command = our_split(files, folder / "store", args.memory)
            shutil.rmtree(folder / "store", ignore_errors=True)
            os.sync()  # what the split before left to be written or removed is not ours
            with limited(cold=False) as run:
                result = run(command, capture=True)
            if result.returncode != 0:
                raise SystemExit(f"blocklinear failed: {result.stderr}")
            if turn:
                seconds[times].append(result.wall_seconds)
    medians = {times: statistics.median(taken) for times, taken in seconds.items()}
    for times in (1, 4, 16):
        net = (medians[times] - medians[0]) / (medians[1] - medians[0])
        print(
            f"{times:2} x median {medians[times]:7.2f} s  {medians[times] / medians[1]:6.2f} times"
            f" the least, net of start {net:6.2f}"
        )


def main(argv: list[str] | None = None) -> int:
    """Run the comparison; return 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, metavar="FILE.svm")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--memory", default="256M", help="our budget (default 256M)")
    parser.add_argument("--growth", action="store_true", help="seconds against rows, ours alone")
    parser.add_argument("--json", type=Path, metavar="OUT", help="store the figures")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=args.source.absolute().parent) as name:
        folder = Path(name)
        if args.growth:
            growth(args.source.absolute(), folder, args)
            return 0
        programs = commands(args.source.absolute(), folder, args.memory)
        seconds: dict[str, list[float]] = {program: [] for program in programs}
        peak = dict.fromkeys(programs, 0)
        for turn in range(args.runs + 1):  # the first warms the page cache and is not counted
            for program, command in programs.items():
                if program == "blocklinear":
                    shutil.rmtree(folder / "store", ignore_errors=True)
                os.sync()  # what a run before has left to be written or removed is not this one's
                with limited(cold=False) as run:
                    result = run(command, capture=True)
                if result.returncode != 0:
                    raise SystemExit(f"{program} failed: {result.stderr}")
                if turn:
                    seconds[program].append(result.wall_seconds)
                    peak[program] = max(peak[program], result.peak_anonymous_bytes)
        sizes = {"text": args.source.stat().st_size, "store": _folder_bytes(folder / "store")}
        if (folder / "cache").exists():
            sizes["vw cache"] = (folder / "cache").stat().st_size
    medians = {program: statistics.median(taken) for program, taken in seconds.items()}
    ours = medians["blocklinear"]
    for program, median in medians.items():
        print(
            f"{program:12} median {median:7.2f} s  (least {min(seconds[program]):.2f})  "
            f"ours/theirs {ours / median:5.2f}  peak anonymous {peak[program] / 2**20:7.0f} MiB"
        )
    print("bytes: " + ", ".join(f"{what} {size}" for what, size in sizes.items()))
    if args.json:
        figures = {"seconds": seconds, "peak_anonymous_bytes": peak, "bytes": sizes}
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
