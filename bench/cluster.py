#!/usr/bin/env python
"""Rounds and bytes of training on a cluster, against the number of parts and one process.

    python bench/cluster.py STORE [--parts 1,2,4,8,16] [--solvers 3,1,7] [--gap 1e-3] [--workers 4]
    python bench/cluster.py --project MEASURED [--text-bytes 1e12] [--features 16777216]

Rounds do not depend on the number of workers, nor on the machine. Bytes are those of weights that a
worker receives and sends in a round, as numbers, without what Dask adds.

The second form computes, and measures nothing: what rounds and epochs of the first form's output
would take on as many machines, from bytes, entries a second and a network of 10 Gbit/s.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any
from unittest import mock

from distributed import Client, LocalCluster

import blocklinear
from blocklinear.cluster.descent import DistributedDescent
from blocklinear.events import Event, OuterIteration
from blocklinear.store.store import BlockStore

RECEIVED, OF_A_PROOF = 8 + 8 + 8, 8
"""Bytes a feature: w, its average and curvatures; recomputed weights, at most."""

TEXT_BYTES_AN_ENTRY, STORE_BYTES_AN_ENTRY = 17.0, 3.95
"""Of blogs: 1.215 GB of text, 282 MB in blocks, 71.3 M entries."""
ENTRIES_A_SECOND = 60e6
"""That a thread works on: blogs 45 to 75 M, on processors that other work shares."""
NETWORK, DISK = 1.25e9, 1e9
"""Bytes a second: 10 Gbit/s, and a file system that the checkpoint is written to."""
SENT_DENSE, SAVED = 8, 40
"""Bytes a feature that a part sends at most, and of a checkpoint: five vectors."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path, nargs="?")
    parser.add_argument("--project", type=Path, metavar="MEASURED")
    parser.add_argument("--text-bytes", type=float, default=1e12)
    parser.add_argument("--features", type=float, default=2**24)
    parser.add_argument("--parts", default="1,2,4,8,16")
    parser.add_argument("--solvers", default="3,1,7")
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="2G")
    args = parser.parse_args()
    if args.project:
        for line in args.project.read_text().splitlines():
            measurement = json.loads(line)
            if measurement["parts"]:
                print(json.dumps(projected(args, measurement)), flush=True)
        return
    if args.store is None:
        parser.error("a STORE, or --project")
    manifest = BlockStore.open(args.store).manifest
    with (
        LocalCluster(
            n_workers=args.workers, threads_per_worker=1, host="127.0.0.1",
            dashboard_address=None, memory_limit=None,
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        for solver in map(int, args.solvers.split(",")):
            for parts in [None, *map(int, args.parts.split(","))]:
                where = {} if parts is None else {"client": client, "parts": parts}
                found = measured(args, solver, where)
                features = manifest.n_features + 1
                if parts is None or parts == 1:
                    del found["sent"]
                else:
                    found |= {
                        "received_a_round": RECEIVED * features,
                        "sent_a_round": found.pop("sent") // (parts * found["rounds"]),
                        "sent_a_certificate": OF_A_PROOF * features,
                    }
                print(json.dumps({"solver": solver, "parts": parts} | found), flush=True)


def projected(args: argparse.Namespace, found: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds that a run of so many rounds and epochs would take on larger data.

    Weights reach all machines in log2 K steps, as each that has them sends them on, and changes
    are added up in as many. Blocks are decoded meanwhile by other threads.
    """
    machines, rounds, n = found["parts"], found["rounds"], args.features
    entries = args.text_bytes / TEXT_BYTES_AN_ENTRY
    levels = math.ceil(math.log2(machines))
    work_s = entries * found["epochs"] / rounds / machines / ENTRIES_A_SECOND
    network_s = n * ((RECEIVED + SENT_DENSE) * levels + SENT_DENSE) / NETWORK + n * SAVED / DISK
    proof_s = entries / machines / ENTRIES_A_SECOND + n * OF_A_PROOF * levels / NETWORK
    return {
        "solver": found["solver"],
        "machines": machines,
        "rounds": rounds,
        "work_s": round(work_s, 1),
        "network_s": round(network_s, 1),
        "total_s": round(rounds * (work_s + network_s) + proof_s),
        "read_bytes_a_second": round(entries * STORE_BYTES_AN_ENTRY / (work_s + network_s)),
        "allreduce_s": round(n * 4 * 4 / NETWORK, 2),
        "tree_aggregate_s": round(n * 8 * (2 * math.sqrt(machines) + levels) / NETWORK, 2),
    }


def measured(args: argparse.Namespace, solver: int, where: dict[str, Any]) -> dict[str, Any]:
    """Return what a run took, and what came of it."""
    seen: list[OuterIteration] = []

    def listen(event: Event) -> None:
        if isinstance(event, OuterIteration):
            seen.append(event)

    sent, advance = [0], DistributedDescent.advance

    def counting(self: DistributedDescent, halt: Any) -> None:
        advance(self, halt)
        sent[0] += self.bytes_sent

    started = time.perf_counter()
    with mock.patch.object(DistributedDescent, "advance", counting):
        model = blocklinear.train(
            args.store, solver=solver, gap=args.gap, memory=args.memory, restart=True,
            run="bench", listener=listen, **where,
        )  # fmt: skip
    certificate = model.metadata["certificate"]
    return {
        "rounds": len(seen),
        "seconds": round(time.perf_counter() - started, 2),
        "solve_s": round(sum(event.solve_s for event in seen), 2),
        "load_s": round(sum(event.load_s for event in seen), 2),
        "epochs": round(sum(e.entries for e in seen) / BlockStore.open(args.store).manifest.nnz, 1),
        "primal": certificate["primal"],
        "gap": certificate["gap"],
        "sent": sent[0],
    }


if __name__ == "__main__":
    main()
