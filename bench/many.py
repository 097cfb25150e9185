"""Time one epoch over M models at once against one model alone, on rows that look like text.

Features are drawn from a power law, numbered at random. The models are as many classes against the
rest, or costs times folds (M = 32: 8 costs, 4 folds). Each repeat starts all of them from zero in
turn and times the first epoch and the fourth, when many steps are zero. What is shown are medians
of the processor time of the thread, which other processes disturb least.

    python bench/many.py [--rows 120000] [--exponent 1.1] [--models 1,2,16,32] [--repeats 5]
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np

from blocklinear.kernels import dual, dual_many

LOSSES = {"hinge": dual.HINGE, "squared hinge": dual.SQUARED_HINGE, "logistic": dual.LOGISTIC}
N_FEATURES = 1_000_000
N_CLASSES = 16
N_FOLDS = 4
BIAS = 1.0
TIMED = {0: "first", 3: "fourth"}
CACHE_LINE = 64


@dataclass(frozen=True)
class Rows:
    """Random rows of unit length, each with its class and fold."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    sq_norm: np.ndarray
    code: np.ndarray
    fold: np.ndarray

    def __len__(self) -> int:
        return len(self.sq_norm)

    @property
    def entries(self) -> tuple[np.ndarray, ...]:
        """What both kernels are told first."""
        return self.indptr[:-1], self.indptr[1:], self.indices, self.values, self.sq_norm


def draw(n_rows: int, exponent: float, seed: int) -> Rows:
    """Draw rows of about 100 features, of popularity rank**-exponent, and classes to learn."""
    rng = np.random.default_rng(seed)
    reach = np.cumsum(np.arange(1.0, N_FEATURES + 1) ** -exponent)
    rank = np.searchsorted(reach / reach[-1], rng.random((n_rows, 135))).clip(max=N_FEATURES - 1)
    number = rng.permutation(N_FEATURES)
    columns = np.sort(number[rank], axis=1)
    first = np.diff(columns, axis=1, prepend=-1) > 0
    indptr = np.concatenate(([0], np.cumsum(first.sum(1))))
    indices = columns[first].astype(np.uint32)
    rarity = np.empty(N_FEATURES)
    rarity[number] = np.log(2.0 + np.arange(N_FEATURES))
    values = rarity[indices] * rng.uniform(0.5, 1.5, len(indices))
    values /= np.repeat(np.sqrt(np.add.reduceat(values**2, indptr[:-1])), np.diff(indptr))
    scores = np.empty((n_rows, N_CLASSES))
    for k in range(N_CLASSES):
        planted = rng.normal(size=N_FEATURES)
        scores[:, k] = np.add.reduceat(values * planted[indices], indptr[:-1])
    scores += 0.5 * rng.normal(size=scores.shape)
    sq_norm = np.add.reduceat(values**2, indptr[:-1])
    fold = rng.integers(0, N_FOLDS, n_rows).astype(np.int32)
    return Rows(indptr, indices, values, sq_norm, scores.argmax(1).astype(np.int32), fold)


class One:
    """The kernel for one model: the first class against the rest, C = 1."""

    name, size = "dcd_epoch", 1

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.target = np.where(rows.code == 0, 1.0, -1.0)
        self.cost, self.alpha = np.ones(len(rows)), np.zeros(len(rows))
        self.w = aligned(N_FEATURES + 1, 1)[:, 0]

    def reset(self) -> None:
        """Go back to zero."""
        self.alpha[:] = 0.0
        self.w[:] = 0.0

    def epoch(self, kind: int, order: np.ndarray) -> None:
        """Visit rows."""
        dual.dcd_epoch(
            *self.rows.entries, self.target, self.cost, order, kind, 0.0, BIAS, self.alpha, self.w,
            np.zeros(dual.N_TOUCH), dual.PERMUTE, np.empty(0, np.float32), np.zeros(dual.N_ADAPT),
        )  # fmt: skip


class Many:
    """The kernel for many models."""

    def __init__(self, rows: Rows, size: int, grid: bool) -> None:
        self.rows, self.size = rows, size
        self.name = f"{size // N_FOLDS} C x {N_FOLDS} folds" if grid else "classes"
        model, n = np.arange(size, dtype=np.int32), len(rows)
        self.positive = np.zeros_like(model) if grid else model % N_CLASSES
        self.held_out = model % N_FOLDS if grid else np.full_like(model, -1)
        C = 2.0 ** (model // N_FOLDS - size // N_FOLDS // 2) if grid else np.ones(size)
        self.cost = np.column_stack((C, C))
        self.target, self.weight = np.zeros(n), np.ones(n)
        self.alpha, self.W = np.zeros((n, size)), aligned(N_FEATURES + 1, size)
        self.span, self.worth = np.zeros(n, np.uint16), np.zeros(n)

    def reset(self) -> None:
        """Go back to zero."""
        self.alpha[:] = 0.0
        self.W[:] = 0.0

    def epoch(self, kind: int, order: np.ndarray) -> None:
        """Visit rows."""
        rows, M = self.rows, self.size
        self.span[:] = M << 8
        dual_many.dcd_many(
            *rows.entries, self.target, rows.code, rows.fold, self.weight, order, self.positive,
            self.held_out, self.cost, kind, 0.0, BIAS, self.alpha, self.W,
            np.empty((dual_many.N_SCRATCH, M)), np.empty(M, np.int64),
            np.zeros((M, dual_many.N_TOUCH)), self.span, self.worth,
        )  # fmt: skip


def aligned(n: int, M: int) -> np.ndarray:
    """Return zeros, float64[n, M], that begin with a cache line."""
    buffer = np.zeros(n * M + CACHE_LINE // 8)
    start = -buffer.ctypes.data % CACHE_LINE // 8
    return buffer[start : start + n * M].reshape(n, M)


def measure(rows: Rows, models: list[One | Many], kind: int, repeats: int) -> dict:
    """Return the seconds of each timed epoch of each model, float[repeats] each."""
    rng, seconds = np.random.default_rng(1), {}
    for model in models:  # compile
        model.epoch(kind, np.arange(10))
    for _ in range(repeats):
        orders = [rng.permutation(len(rows)) for _ in range(max(TIMED) + 1)]
        for number, model in enumerate(models):
            model.reset()
            for epoch, order in enumerate(orders):
                start = time.thread_time()
                model.epoch(kind, order)
                seconds.setdefault((number, epoch), []).append(time.thread_time() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=120_000)
    parser.add_argument("--exponent", type=float, default=1.1, help="of the power law")
    parser.add_argument("--models", default="1,2,3,5,8,16,30,32,52")
    parser.add_argument("--losses", default="hinge,squared hinge", help="of: " + ", ".join(LOSSES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows = draw(args.rows, args.exponent, args.seed)
    models: list[One | Many] = [One(rows)]
    for size in map(int, args.models.split(",")):
        models.append(Many(rows, size, grid=False))
        if size % N_FOLDS == 0 and size > 2 * N_FOLDS:
            models.append(Many(rows, size, grid=True))
    nnz = len(rows.indices)
    print(f"{len(rows)} rows, {nnz} nonzeros, {N_FEATURES} features, exponent {args.exponent}")
    for loss in args.losses.split(","):
        seconds = measure(rows, models, LOSSES[loss], args.repeats)
        for epoch, name in TIMED.items():
            print(f"\n{loss}, {name} epoch\n   M  models            seconds  ratio  10^6 nnz M / s")
            base = np.median(seconds[0, epoch])
            for number, model in enumerate(models):
                took = np.median(seconds[number, epoch])
                ratio, speed = took / base, nnz * model.size / took / 1e6
                print(f"{model.size:4}  {model.name:16}  {took:7.3f}  {ratio:5.2f}  {speed:14.0f}")


if __name__ == "__main__":
    main()
