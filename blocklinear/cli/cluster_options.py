"""Options of commands that can train on a cluster, and the cluster while a command lasts."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blocklinear.options import SplitOptions, TrainOptions
    from blocklinear.training.parts import Elsewhere


def add_cluster(parser: Any) -> None:
    """Add ``--dask`` and ``--parts`` in a group of their own."""
    group = parser.add_argument_group("several machines")
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="train on the workers of the Dask scheduler at this address, all of which reach STORE "
        "by the same path, or on local:N processes; --memory is that of each worker",
    )
    group.add_argument(
        "--parts",
        type=int,
        metavar="K",
        help="parts to work on side by side (default: one for each worker, but at most half as "
        "many as there are blocks)",
    )


def check_cluster(args: argparse.Namespace, options: "TrainOptions") -> None:
    """Refuse what a cluster does not do before it is started."""
    from blocklinear.errors import UsageError

    if args.dask is None:
        if args.parts is not None:
            raise UsageError("--parts are those of a cluster", "give --dask")
        return
    from blocklinear.cluster.connect import n_local_workers
    from blocklinear.cluster.job import check_supported

    n_local_workers(args.dask)
    check_supported(options)


@contextmanager
def cluster_of(
    args: argparse.Namespace, options: "TrainOptions", load: "Callable[[bool], None]"
) -> "Iterator[tuple[TrainOptions, Elsewhere | None]]":
    """Yield the options, and what trains on a cluster if one was asked for.

    Memory is that of its workers unless it was given. The kernels are loaded, on workers too:
    threads of one that load one kernel at once may wait for each other for a second.
    """
    if args.dask is None:
        load(args.quiet)
        yield options, None
        return
    from blocklinear.cluster.connect import connected, run_on_workers
    from blocklinear.cluster.run import Cluster

    one_part = args.parts in (None, 1)  # several would need memory for their sums besides
    with connected(args.dask, partial(load, args.quiet), inside=one_part) as client:
        run_on_workers(client, load, True)
        cluster = Cluster(client, args.parts)
        if args.memory is None:
            options = replace(options, memory_bytes=cluster.budget())
        yield options, cluster


def add_split_cluster(parser: Any) -> None:
    """Add ``--dask`` of a split."""
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="split on the workers of the Dask scheduler at this address, all of which reach the "
        "INPUTs and the folder of STORE by the same paths, or on local:N processes; --memory is "
        "that of each worker",
    )


@contextmanager
def split_client(
    args: argparse.Namespace, options: "SplitOptions", tables: bool, load: "Callable[[bool], None]"
) -> "Iterator[tuple[Any, int | None]]":
    """Yield a client to split with and the memory of its workers, if a cluster was asked for.

    The kernels are loaded, on workers too. What a cluster does not do is refused before.
    """
    if args.dask is None:
        load(args.quiet)
        yield None, None
        return
    from blocklinear.cluster.connect import (
        budget_of_worker,
        connected,
        n_local_workers,
        run_on_workers,
    )
    from blocklinear.cluster.split import check_supported
    from blocklinear.errors import UsageError

    n_local_workers(args.dask)
    if tables:
        raise UsageError("tables are not split on a cluster", "split them without --dask")
    check_supported(args.inputs, options)
    loaded, preload = partial(load, args.quiet), "blocklinear.cluster.assembly"
    with connected(args.dask, loaded, preload, inside=False) as client:
        run_on_workers(client, load, True)
        yield client, budget_of_worker(client)
