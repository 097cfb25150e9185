"""What the facts of a checkpoint are made of, with the states of the solver and of stopping."""

from typing import Any

from blocklinear.objectives.problems import SOLVERS
from blocklinear.store import shapes
from blocklinear.store.shapes import Shape, count, fields, flag, items, maybe, number, row, text


def _solver(value: Any, place: str) -> None:
    count(value, place)
    if value not in SOLVERS:
        raise ValueError(f"{place} is not a solver that is known here")


_COURSE = fields(
    {
        "solver": _solver, "method": text, "cost": number, "bias": number, "balanced": flag,
        "regularize_bias": flag,
        "class_weights": items(row(number, number)),
    },
    {"costs": items(number), "epsilon": number, "average": flag, "l1_ratio": number},
    more=True,
)  # fmt: skip
_CERTIFICATE = fields(
    {"primal": number, "dual": number, "gap": number, "drift": number, "average": flag},
    {"rounding": number},
)
_ITERATES = items(
    fields({"certificate": maybe(_CERTIFICATE), "first_violation": number}, more=True)
)
"""The rest is compared with what they begin with, see `solvers.protocol.take_attributes`."""
_NEWTON = items(
    fields({"active": items(count), "models": _ITERATES}, {"rows": count, "hessians": count})
)
_L1 = fields(
    {
        "noted": flag, "active": items(count), "filed": flag, "rounded": flag,
        "models": _ITERATES,
    }
)  # fmt: skip
_METHOD = fields(
    {
        "labels": items(number), "costs": items(row(number, number)), "asked": items(number),
        "models": items(row(maybe(number), shapes.integer(-1))), "trained": items(items(count)),
    },
    {
        "columns": items(count), "by_pass": items(items(count)),
        "certificates": items(maybe(_CERTIFICATE)),
        "newton": _NEWTON, "l1": _L1, "regions": items(row(count, count, count)),
        # of a cluster; `kept` are rounds, the models trained in them, and the steps taken; from
        # the round that `stays` on parts are the same
        "parts": count, "written": items(count), "first": count, "stays": count,
        "kept": items(row(count, items(count), items(number))),
    },
    more=True,
)  # fmt: skip
_STOPPING = fields(
    {
        "scale": number, "moved": count, "best": row(number, number, number), "warned": flag,
        "believed": number, "work": number, "work_measured": number, "gap_measured": number,
        "measured_before": row(number, number),
    }
)  # fmt: skip
_BLOCKS: dict[str, Shape] = {"blocks": items(row(text, count))}
check_facts: Shape = fields(
    _BLOCKS | {
        "course": _COURSE, "store": text, "group": shapes.integer(1), "working_set_entries": count,
        "newton": flag, "hessian": flag, "outer": count, "done": count, "decided": flag,
        "goes_over": flag,
        "descended": maybe(count), "stopping": _STOPPING, "method": _METHOD,
        "best": maybe(row(count, number)),
    },
    {
        "warm_only": flag, "finished": flag, "started_warm": flag,
        "slow_after": maybe(count), "early": flag, "first": row(count, items(count)),
    },
    more=True,
)  # fmt: skip
"""What a run has to be resumed, or for another to start from its alpha."""
check_blocks: Shape = fields(_BLOCKS, more=True)
"""What `gc` needs of it: the blocks whose rows it knows."""
