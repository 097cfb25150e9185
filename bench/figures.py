"""Figures 2 to 5 of Yu, Hsieh, Chang and Lin (TKDD), and their test of compression, on our data.

    python bench/figures.py [--quick] [--out FOLDER]

Text-like rows are generated, more than the memory given to a run; each run has a cgroup of its own
and starts with a cold page cache, on the disk as it is and on one slowed down to 100 MB/s. Needs
root and matplotlib.

* yu2, yu3: solvers of a block: (P - P*) / P* and what is missing to the accuracy at P*.
* yu4: rows dealt to blocks at random or in file order, which is by class.
* yu5: number of blocks.
* compression: zstd or none.

Seconds count from the beginning of the split; dotted lines are where it ends.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.ticker
from figure_runs import DISKS, Curve, Lab, Method
from generate import parse_bytes
from limits import LimitsUnavailable
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from measuring import BENCH, compile_kernels, write_figures

LEAST = 1e-6
"""Of P*: what the reference is known to; smaller differences are not drawn."""
MARKERS = "osv^Dx*"
BLOCKS = 40
Curves = dict[str, dict[str, Curve]]


def solvers() -> list[Method]:
    """Return the settings of Yu, 8.1, one block a visit, and our default."""
    return [
        Method("BLOCK-L-1", "random40", group=1),
        Method("BLOCK-L-10", "random40", group=1, epochs=10),
        Method("BLOCK-L-D", "random40", group=1, epochs=None),
        Method("BLOCK-P-B", "random40", group=1, method="pegasos", pegasos_batch=None),
        Method("BLOCK-P-I", "random40", group=1, method="pegasos"),
        Method("default: regrouped, active", "random40", "active"),
    ]


def orders() -> list[Method]:
    """Return Yu, 8.2.1, and what regrouping makes of it; blocks are always permuted."""
    return [
        Method("by class, BLOCK-L-D", "byclass40", group=1, epochs=None),
        Method("random, BLOCK-L-D", "random40", group=1, epochs=None),
        Method("by class, regrouped by 4", "byclass40", group=4),
        Method("random, regrouped by 4", "random40", group=4),
        Method("by class, default", "byclass40", "active"),
        Method("random, default", "random40", "active"),
    ]


def numbers_of_blocks(quick: bool) -> list[Method]:
    """Return Yu, 8.2.2: BLOCK-L-D, and the default."""
    numbers = (BLOCKS, 100) if quick else (BLOCKS, 100, 400)
    found = [Method(f"m = {m}, BLOCK-L-D", f"random{m}", group=1, epochs=None) for m in numbers]
    return found + [Method(f"m = {m}, default", f"random{m}", "active") for m in numbers]


def compressions() -> list[Method]:
    """Return Yu, 8.2.3, for BLOCK-L-1, where loading matters most, and the default."""
    found = []
    for store, name in (("random40", "zstd"), ("none40", "none")):
        found.append(Method(f"{name}, BLOCK-L-1", store, group=1))
        found.append(Method(f"{name}, default", store, "active"))
    return found


def draw(
    path: Path, lab: Lab, curves: Curves, stores: dict[str, str], label: str,
    value: Callable[[Curve], list[float]], least: float = LEAST,
) -> None:  # fmt: skip
    """Draw the curves of each disk side by side, on a logarithmic scale if `least` is above 0."""
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    panels = figure.subplots(1, len(DISKS), sharey=True)
    lines = []
    for ax, disk in zip(panels, DISKS, strict=True):
        lines = _draw_disk(ax, lab, disk, curves, stores, value, least)
        ax.set_title(disk)
        ax.set_xlabel("seconds, split included")
    panels[0].set_ylabel(label)
    figure.legend(handles=lines, loc="outside lower center", ncols=3, fontsize="small")
    figure.savefig(path, dpi=130)
    print(path, flush=True)


def _draw_disk(
    ax: Axes, lab: Lab, disk: str, curves: Curves, stores: dict[str, str],
    value: Callable[[Curve], list[float]], least: float,
) -> list[mpl.lines.Line2D]:  # fmt: skip
    lines = []
    for number, (name, of_disk) in enumerate(curves.items()):
        began, curve = lab.split_seconds[stores[name], disk], of_disk[disk]
        points = [
            (began + s, v) for s, v in zip(curve.seconds, value(curve), strict=True) if v >= least
        ]
        lines += ax.plot(
            [s for s, _ in points], [v for _, v in points], label=name, color=f"C{number}",
            marker=MARKERS[number % len(MARKERS)], markersize=4, linewidth=1.2,
        )  # fmt: skip
    for began in sorted({lab.split_seconds[stores[name], disk] for name in curves}):
        ax.axvline(began, color="tab:blue", linestyle=":", linewidth=1)
    ax.set_xscale("log")
    ax.set_yscale("log" if least > 0 else "linear")
    ax.xaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    ax.xaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
    ax.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    ax.grid(alpha=0.3)
    return lines


def measure(lab: Lab, args: argparse.Namespace) -> None:
    """Make the data, run everything, and draw the figures."""
    compile_kernels()
    lab.make_text(args.bytes)
    lab.split(f"random{BLOCKS}", "shuffled.svm", "--blocks", str(BLOCKS))
    lab.split(f"byclass{BLOCKS}", "by-class.svm", "--blocks", str(BLOCKS), "--order", "file")
    lab.split(f"none{BLOCKS}", "shuffled.svm", "--blocks", str(BLOCKS), "--compression", "none")
    blocks = numbers_of_blocks(args.quick)
    for m in sorted({int(method.store.removeprefix("random")) for method in blocks} - {BLOCKS}):
        lab.split(f"random{m}", "shuffled.svm", "--blocks", str(m))
    best, best_accuracy = lab.reference(f"random{BLOCKS}")

    known: dict[tuple[object, ...], dict[str, Curve]] = {}
    difference = "(P - P*) / P*"
    figures = {"yu2": solvers(), "yu4": orders(), "yu5": blocks, "compression": compressions()}
    found: dict[str, Curves] = {}
    for figure, methods in figures.items():
        for method in methods:
            same = (method.store, *method.arguments())  # of two figures is run once
            if same not in known:
                known[same] = lab.curves(method)
            found.setdefault(figure, {})[method.name] = known[same]
        stores = {method.name: method.store for method in methods}
        draw(
            args.out / f"{figure}.png", lab, found[figure], stores, difference,
            lambda curve: [(primal - best) / best for primal in curve.primal],
        )  # fmt: skip
        if figure == "yu2":
            draw(
                args.out / "yu3.png", lab, found[figure], stores,
                "percent of test rows missing to the accuracy at P*",
                lambda curve: [100 * (best_accuracy - seen) for seen in curve.accuracy],
                least=-100.0,
            )  # fmt: skip
    write_figures(args.out, "figures", {
        "bytes": args.bytes, "memory": args.memory, "seconds": args.seconds, "P*": best,
        "accuracy*": best_accuracy,
        "split_seconds": {f"{name}, {disk}": s for (name, disk), s in lab.split_seconds.items()},
        "curves": {
            figure: {name: {disk: vars(c) for disk, c in of.items()} for name, of in some.items()}
            for figure, some in found.items()
        },
    })  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Measure and draw; return 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="little data, a couple of minutes")
    parser.add_argument("--out", type=Path, default=BENCH / "figures", metavar="FOLDER")
    parser.add_argument("--folder", type=Path, help="for the data, on a disk (default: of --out)")
    parser.add_argument("--bytes", type=parse_bytes, help="of text (800M; quick 150M)")
    parser.add_argument("--memory", help="of a run (256M; quick 192M)")
    parser.add_argument("--seconds", type=float, help="that a timed run may take (20; quick 1.5)")
    args = parser.parse_args(argv)
    quick = args.quick
    args.bytes = args.bytes or (150_000_000 if quick else 800_000_000)
    args.memory = args.memory or ("192M" if quick else "256M")
    args.seconds = args.seconds or (1.5 if quick else 20.0)
    args.out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(dir=args.folder or args.out) as folder:
            measure(Lab(Path(folder), args.memory, args.seconds), args)
    except LimitsUnavailable as reason:
        print(reason, file=sys.stderr)
        return 125
    print(f"{time.perf_counter() - started:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
