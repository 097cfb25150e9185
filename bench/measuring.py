"""What the measurements of training share: data with two classes, tables, figures on disk."""

import bz2
import json
import lzma
import os
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from generate import generate
from shapes import make_shape

BENCH = Path(__file__).parent
BUNDLED = BENCH.parent / "tests" / "data"
PROGRAM = [sys.executable, "-P", "-m", "blocklinear"]
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

    Those that are in neither are left out, which is said.

    Raises
    ------
    SystemExit
        If none is there.
    """
    found = {}
    for name in names:
        places = [BUNDLED, Path(os.environ.get("BLOCKLINEAR_DATA", BUNDLED))]
        paths = [path for place in places for path in sorted(place.glob(f"{name}*.train.svm.*"))]
        if paths:
            found[name] = paths[0]
        else:
            print(f"left out: {name} (set BLOCKLINEAR_DATA to its folder)", file=sys.stderr)
    if not found:
        raise SystemExit("none of these data sets is there")
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


def compile_kernels(version: Path | None = None) -> None:
    """Compile every kernel that is not, so that none is while it is timed; of another version."""
    code = (
        "try:\n"
        "    from blocklinear.cli.rehearsal import rehearse\n"  # before there was `warmup`
        "except ImportError:\n"
        "    import sys\n"
        "    from blocklinear.cli.main import main\n"
        "    sys.exit(main(['warmup', '--quiet']))\n"
        "for part in ('split', 'one', 'pegasos', 'many', 'crammer-singer'):\n"
        "    rehearse(part, 'float64', quiet=True)"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environment(version))


def environment(version: Path | None) -> dict[str, str]:
    """Return an environment in which the program is that of another checkout, if one is given."""
    return os.environ | ({"PYTHONPATH": str(version.absolute())} if version else {})


def logged(path: Path) -> list[dict[str, Any]]:
    """Return the outer iterations of a run log."""
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in events if event["event"] == "outer"]
