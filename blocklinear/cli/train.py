"""``blocklinear train``."""

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocklinear.cli.common import Console, add_budget, given

if TYPE_CHECKING:
    from blocklinear.events import Event, Listener
    from blocklinear.store import BlockStore


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "train",
        help="train a model on a store",
        description="Dual coordinate descent on groups of blocks, until the certified duality gap "
        "is small enough. Where both --gap and -e are given, both must hold.",
        epilog="exit status: 0 ok (also when not converged: a warning says so), 2 usage, 3 labels "
        "do not fit, 4 damaged store, 6 I/O or no space, 7 memory budget, 8 store busy",
    )
    parser.add_argument(
        "store",
        metavar="STORE",
        help="folder made by `split`; or LIBSVM text, then STORE.blocks is made and reused",
    )
    parser.add_argument("model", metavar="MODEL", help="file to write")
    parser.add_argument(
        "-s",
        "--solver",
        type=int,
        default=3,
        metavar="N",
        help="1 squared hinge, 3 hinge (default)",
    )
    parser.add_argument("-c", "--cost", type=float, default=1.0, metavar="C", help="(default 1)")
    parser.add_argument(
        "-B", "--bias", type=float, default=-1.0, metavar="B", help="bias feature; negative: none"
    )
    parser.add_argument(
        "--class-weight",
        action="append",
        default=[],
        metavar="LABEL=W",
        help="multiply C for rows of a class; also written -wLABEL W",
    )
    parser.add_argument("--gap", type=float, help="relative duality gap to reach (default 0.001)")
    parser.add_argument(
        "-e", "--tolerance", type=float, metavar="TOL", help="violation to reach, as LIBLINEAR's -e"
    )
    parser.add_argument(
        "--max-outer",
        type=int,
        metavar="K",
        help="outer iterations at most (default: until --gap holds)",
    )
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="seconds at most")
    parser.add_argument("--epochs", type=int, metavar="N", help="epochs a visit (default 1)")
    parser.add_argument(
        "--group", type=int, metavar="G", help="blocks a visit (default: by --memory)"
    )
    parser.add_argument("--seed", type=int, metavar="S", help="of the orders of blocks and rows")
    parser.add_argument("--run", dest="run_name", metavar="NAME", help="(default: default)")
    parser.add_argument(
        "--format", default="native", choices=("native", "liblinear"), help="of MODEL"
    )
    parser.add_argument("--log", metavar="FILE", help="write a JSON object per outer iteration")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    add_budget(parser)
    parser.set_defaults(run=run)


def _class_weight(text: str) -> tuple[float, float]:
    from blocklinear.errors import UsageError

    label, _, weight = text.partition("=")
    try:
        return float(label), float(weight)
    except ValueError:
        raise UsageError(f"class weight {text!r} is not LABEL=W", "write -w1 5") from None


def _check_liblinear(store: "BlockStore", listener: "Listener") -> None:
    """Refuse, before training, what LIBLINEAR's format cannot tell."""
    from blocklinear.events import Warned
    from blocklinear.model.liblinear import check_expressible

    manifest = store.manifest
    check_expressible(manifest.labels or (), manifest.index_base, manifest.hash_bits)
    if manifest.normalize != "none":
        listener(Warned("LIBLINEAR's format does not say that rows are normalized: predict such"))


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.errors import StorageError
    from blocklinear.model.linear import check_replaceable
    from blocklinear.options import SplitOptions, TextOptions, TrainOptions
    from blocklinear.report.runlog import RunLog
    from blocklinear.store.beside import store_of
    from blocklinear.training import train

    chosen: Any = given(
        gap=args.gap,
        tolerance=args.tolerance,
        max_outer=args.max_outer,
        time_limit_s=args.time_limit,
        epochs=args.epochs,
        group=args.group,
        seed=args.seed,
        threads=args.threads,
        memory_bytes=args.memory,
        run=args.run_name,
    )
    options = TrainOptions(
        solver=args.solver,
        cost=args.cost,
        class_weights=tuple(map(_class_weight, args.class_weight)),
        bias=args.bias,
        **chosen,
    )
    check_replaceable(Path(args.model))  # now, not after training
    folder = Path(args.model).absolute().parent
    if not folder.is_dir():
        raise StorageError(f"{folder}: no such folder", "make it first")
    text: Any = given(threads=args.threads, memory_bytes=args.memory)
    console = Console(args.quiet)
    try:
        store = store_of(args.store, SplitOptions(text=TextOptions(**text)), console)
    finally:
        console.close()
    if args.format == "liblinear":
        _check_liblinear(store, console)
    with ExitStack() as stack:
        listeners: list[Listener] = [console]
        if args.log:
            listeners.append(stack.enter_context(RunLog(args.log)))

        def tell(event: "Event") -> None:
            for listener in listeners:
                listener(event)

        model = train(store, options, tell)
    model.save(args.model, format=args.format)
    proof = model.metadata["certificate"]
    print(
        f"primal {proof['primal']:.9g}, dual {proof['dual']:.9g}, certified gap {proof['gap']:.3g} "
        f"after {model.metadata['outer_iterations']} outer iterations"
    )
    return 0
