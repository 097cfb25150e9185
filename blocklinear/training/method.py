"""Which method trains: coordinate descent on the dual, or Newton's method on the primal.

Both come to the same optimum of a smooth loss. Newton's method needs memory for the Hessian, or
many rows that stay in memory: its conjugate gradients took as long as coordinate descent, or up to
forty times longer, on all text tried, with C from 0.01 to 100.

What both cost is compared in passes over the data, without what loading takes. Coordinate descent
needs at most about

    (1 + h |x|**2) log(1 / gap)

of them, h being the largest second derivative of C times the loss (1 + h |x|**2 is the condition of
its dual; Beck and Tetruashvili 2013), and each of its steps takes as long as some entries more. In
parts on a cluster h counts once for each part (Ma et al., ICML 2015, Lemma 4).
Newton's method needs few passes, whatever the condition, but one that adds the Hessian up costs
more; by products alone it needs more of them.
"""

import math
from dataclasses import replace
from typing import Any, Protocol

from blocklinear.events import MethodChosen
from blocklinear.kernels import losses
from blocklinear.numerals import counted, format_number
from blocklinear.objectives.models import Models
from blocklinear.objectives.problems import SOLVERS
from blocklinear.options import TrainOptions
from blocklinear.solvers.newton.costs import (
    OF_SEVERAL,
    descent_work,
    has_many_rows,
    knows_too_few,
    newton_passes,
    newton_work,
)
from blocklinear.solvers.sharing import n_columns
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.store import BlockStore
from blocklinear.training.checkpoint import Checkpoint, folder_of_part, parts_of
from blocklinear.training.checkpoint_schema import check_facts
from blocklinear.training.memory_plan import MemoryPlan, plan_that_fits


class Planner(Protocol):
    """What plans the memory of tasks that are trained elsewhere: on a cluster."""

    def plan(
        self, store: BlockStore, options: TrainOptions, task: Models
    ) -> tuple[MemoryPlan | None, int]:
        """Return how a worker's budget is divided, None if it is too small; and how many parts.

        That is for a run that starts anew.
        """


def choose_method(
    store: BlockStore, options: TrainOptions, task: Models, by: Planner | None
) -> tuple[TrainOptions, MethodChosen]:
    """Return options that leave the method to the data with one, and why it is that.

    Of several costs the largest decides, which takes longest.
    """
    choice = _choice(store, options, task, by)
    options = replace(options, method=choice.method)
    return options.for_newton() if choice.method == "newton" else options, choice


def _choice(
    store: BlockStore, options: TrainOptions, task: Models, by: Planner | None
) -> MethodChosen:
    manifest = store.manifest
    n, solver, nnz = manifest.n_features + 1, options.solver, max(manifest.nnz, 1)
    passes = newton_work(newton_passes(solver), manifest) / nnz
    passes *= OF_SEVERAL if len(task) > 1 else 1
    cost = float(task.asked.max())
    newton, url_bytes = replace(options, method="newton"), store.fetching_bytes
    if by is None:
        plan, n_parts = plan_that_fits(manifest, newton, n_columns(len(task)), 0, url_bytes), 1
    else:
        plan, n_parts = by.plan(store, newton, task)
    epochs = _condition(store, options, cost, n_parts) * math.log(1.0 / (options.gap or 1e-3))
    descent = descent_work(solver, epochs, epochs * manifest.n_rows / nnz)
    few = knows_too_few(solver, manifest)
    facts = _resumed(store, options)
    fits = facts["hessian"] if facts is not None else plan is not None and plan.hessian
    resident = plan is not None and plan.group >= len(manifest.blocks)
    by_products = not fits and resident and has_many_rows(manifest) and len(task) == 1
    if by_products:
        passes = float(newton_passes(solver, hessian=False))
    cheaper = passes < descent and not few
    method = "newton" if cheaper and (fits or by_products) else "dual"
    if facts is not None and facts["course"]["method"] != method:
        return MethodChosen(facts["course"]["method"], "the run to go on from was trained by it")
    if cheaper and method == "dual":
        return MethodChosen(method, f"there is no memory for a Hessian of {counted(n, 'weight')}")
    if few:
        why = (
            "only rows with a loss are in the Hessian, and "
            f"{counted(manifest.n_rows, 'row')} may be too few for {counted(n, 'weight')}"
        )
        return MethodChosen(method, why)
    steps = "products with" if by_products else "steps by"
    why = (
        f"with {counted(n, 'weight')}, {steps} the Hessian cost as much as "
        f"{format_number(round(passes))} passes over the data, and coordinate descent as much as "
        + (format_number(math.ceil(descent)) if math.isfinite(descent) else "any number")
    )
    return MethodChosen(method, why)


def _resumed(store: BlockStore, options: TrainOptions) -> dict[str, Any] | None:
    """Return the facts of the run to go on from, if there is one by a method to choose from."""
    if not options.resume:
        return None
    folder = store.folder / "runs" / options.run
    if (n_parts := parts_of(folder) or 1) > 1:
        folder = folder_of_part(folder, 1, n_parts)
    facts = Checkpoint(folder).checked(check_facts)
    return facts if facts is not None and facts["course"]["method"] in ("dual", "newton") else None


def _condition(store: BlockStore, options: TrainOptions, cost: float, n_parts: int) -> float:
    """Return 1 + n_parts h |x|**2, of the mean over the rows of a block."""
    manifest = store.manifest
    weight = manifest.weights["total"] / max(manifest.n_rows, 1)
    curvature = 0.25 if SOLVERS[options.solver].kind == losses.LOGISTIC else 2.0
    number = max(range(len(manifest.blocks)), key=lambda k: manifest.blocks[k].rows)
    with GroupLoader(store, 1, options.threads) as loader:
        (loaded,) = loader.stream([(number,)])
        squares = loaded.group.sq_norm / max(loaded.group.n_rows, 1)  # their sum may be infinite
        size = float(squares.sum()) + max(options.bias, 0.0) ** 2
    return 1.0 + n_parts * curvature * (cost * float(weight)) * size
