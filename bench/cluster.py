#!/usr/bin/env python
"""Rounds and bytes of training on a cluster, against the number of parts and one process.

    python bench/cluster.py STORE [--parts 1,2,4,8,16] [--solvers 3,1,7] [--gap 1e-3] [--workers 4]

Rounds do not depend on the number of workers, nor on the machine. Bytes are those of weights that a
worker receives and sends in a round, as numbers, without what Dask adds.
"""

import argparse
import json
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--parts", default="1,2,4,8,16")
    parser.add_argument("--solvers", default="3,1,7")
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="2G")
    args = parser.parse_args()
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


def measured(args: argparse.Namespace, solver: int, where: dict[str, Any]) -> dict[str, Any]:
    """Return what a run took, and what came of it."""
    seen: list[OuterIteration] = []

    def listen(event: Event) -> None:
        if isinstance(event, OuterIteration):
            seen.append(event)

    sent, advance = [0], DistributedDescent.advance

    def counting(self: DistributedDescent, halt: Any) -> None:
        advance(self, halt)
        sent[0] += self.spent.bytes_sent

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
