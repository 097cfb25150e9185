"""Every kernel over rows at the edges of what there can be.

Run without compilation too (`scripts/test.sh`): there an index out of range is an error.
"""

import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

import blocklinear.kernels
from blocklinear.kernels import crammer_singer as cs
from blocklinear.kernels import (
    dual,
    l1,
    losses,
    margins,
    one_class,
    orders,
    pegasos,
    primal,
    sums,
)
from blocklinear.kernels.blocks import columns as columns_kernels
from blocklinear.kernels.blocks import packed_rows, routing, scaling

LARGE, SMALL = 9.9e153, 5e-324
"""The largest value that a row can have, and the smallest."""
ROWS = {
    "no rows": [],
    "rows without entries": [[], []],
    "one entry": [[1.0]],
    "the largest value": [[LARGE], [-LARGE]],
    "the smallest values": [[SMALL] * 3, [-SMALL]],
    "large beside small": [[LARGE, SMALL, 1.0], [], [1e-160, 1e100]],
    "more entries than loops are unrolled for": [[0.5] * 17, [0.25] * 8, [1.0] * 7, []],
}
KEY = np.array([1, 2], np.uint64)


@dataclass
class Rows:
    """Rows in CSR, with classes, targets and costs; the last row has cost 0."""

    lists: list
    bias: float
    dtype: str

    def __post_init__(self):
        lengths = np.array([len(row) for row in self.lists], np.int64)
        self.n, self.n_features = len(lengths), int(lengths.max(initial=0))
        self.lengths = lengths
        self.indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        self.starts, self.stops = self.indptr[:-1], self.indptr[1:]
        indices = [j for row in self.lists for j in range(len(row))]
        self.indices = np.array(indices, np.uint32)
        values = [x for row in self.lists for x in row]
        self.values = np.clip(np.array(values, np.float64), -1e18, 1e18)
        if self.dtype == "float64":
            self.values = np.array(values, np.float64)
        self.values = self.values.astype(self.dtype)
        self.sq_norm = np.zeros(self.n)
        for i, (start, stop) in enumerate(zip(self.starts, self.stops, strict=True)):
            self.sq_norm[i] = (self.values[start:stop].astype(np.float64) ** 2).sum()
        self.y = np.where(np.arange(self.n) % 2, -1.0, 1.0)
        self.cost = np.where(np.arange(self.n) == self.n - 1, 0.0, 1.0)
        self.order = np.arange(self.n)[::-1].copy()
        self.whole = self.indptr, self.indices, self.values
        self.cut = self.starts, self.stops, self.indices, self.values, self.sq_norm
        self.data = self.y, self.cost

    def w(self, *columns):
        """Return zero weights, with a row for the bias."""
        return np.zeros((self.n_features + 1, *columns))


def dcd_epoch(r):
    for kind in range(5):
        for selection in (dual.PERMUTE, dual.SHRINK, dual.AVSF):
            alpha, w = np.zeros(r.n), r.w()
            touch, adapt = np.zeros(dual.N_STATS), np.array([0.1, 0.1])
            preference = np.zeros(r.n if selection else 0, np.float32)
            dual.dcd_epoch(
                r.cut, r.data, r.order, (kind, 0.1), r.bias, alpha, w, touch,
                selection, preference, adapt, np.zeros(r.n, np.uint16), np.zeros(r.n),
            )  # fmt: skip
            assert np.isfinite(alpha).all()
            assert np.isfinite(w).all()


def dual_certificates(r):
    for kind in range(5):
        alpha, terms = np.full(r.n, 0.5), np.zeros(dual.N_TERMS)
        dual.add_dual_terms(r.data, (kind, 0.1), alpha, terms)
        found, reach = np.zeros((2, losses.N_SUMS)), np.zeros(losses.N_REACHES)
        dual.certify_rows(
            r.cut, r.data, (kind, 0.1), r.bias, alpha, np.ones(2), r.w(), r.w(),
            True, np.zeros(2), r.w(), found, reach,
        )  # fmt: skip
        assert np.isfinite(found).all()
        assert np.isfinite(reach).all()


def many(r):
    for kind in range(5):
        for M in (1, 3, 8):
            code, fold = np.arange(r.n, dtype=np.int32) % 3, np.zeros(r.n, np.int32)
            about = r.y, code, fold, r.cost
            positive, held_out = np.arange(M, dtype=np.int32) % 3, np.full(M, -1, np.int32)
            models = positive, held_out, np.ones((M, 2)), kind, 0.1
            alpha, W = np.zeros((r.n, M)), r.w(M)
            spans = np.full(r.n, M << 8, np.uint16)
            dual.dcd_many(
                r.cut, about, r.order, models, r.bias, alpha, W,
                np.zeros((M, dual.N_STATS)), spans, np.zeros(r.n),
            )  # fmt: skip
            terms = np.zeros((M, dual.N_TERMS))
            dual.add_many_dual_terms(about, models, alpha, terms)
            dual.certify_many(
                r.cut, about, models, r.bias, alpha, np.ones((2, M)), W,
                r.w(M), True, np.zeros((2, M)), r.w(M), np.zeros((2, losses.N_SUMS, M)),
                np.zeros((losses.N_REACHES, M)),
            )  # fmt: skip
            assert np.isfinite(alpha).all()
            assert np.isfinite(W).all()


def crammer_singer(r):
    for K in (2, 3, 40):
        label = (np.arange(r.n) % K).astype(np.int32)
        alpha, W = np.zeros((r.n, K)), r.w(K)
        for support_only in (False, True):
            cs.cs_epoch(
                r.cut, (label, r.cost), r.order, r.bias, alpha, W, support_only, 1.0,
                np.zeros(dual.N_STATS), np.zeros(r.n, np.uint16), np.zeros(r.n),
            )  # fmt: skip
        assert np.isfinite(alpha).all()
        cs.cs_add_dual_terms((label, r.cost), alpha, np.zeros(dual.N_TERMS))
        cs.cs_certify_rows(
            r.cut, (label, r.cost), r.bias, alpha, W, r.w(K), True, np.zeros(2), r.w(K),
            np.zeros((2, losses.N_SUMS)), np.zeros(losses.N_REACHES),
        )  # fmt: skip
        earlier = np.zeros_like(alpha)
        cs.cs_extrapolate(r.cut, (label, r.cost), r.bias, 1.0, alpha, earlier, r.w(K))


def pegasos_epochs(r):
    for batch in (1, 2, r.n + 1):
        w, alpha = r.w(), np.zeros(r.n)
        t = pegasos.pegasos_epoch(
            r.cut, r.data, r.order, batch, max(r.n - 1, 1), np.inf, r.bias, 0, w,
            np.zeros(pegasos.N_STATS), alpha, 1.0,
        )  # fmt: skip
        assert t <= r.n
        assert np.isfinite(w).all()


def newton(r):
    n = r.n_features + 1
    for kind, hessian, width in product(
        range(5), (np.zeros((0, 0)), np.zeros((n, n))), (1.0, np.inf)
    ):
        proximal = kind in (losses.HINGE, losses.L1_SVR)
        alpha, pull, diagonal = np.zeros(r.n), r.w(), r.w()
        for evaluates in (True, False):
            primal.newton_rows(
                r.cut, r.data, (kind, 0.1), r.bias, evaluates, r.w(), 0.0,
                np.zeros(r.n if proximal else 0), width, alpha, pull, diagonal, hessian,
                np.zeros(losses.N_SUMS), np.zeros(losses.N_REACHES), np.zeros(primal.N_VALUES),
            )  # fmt: skip
        primal.solve(hessian + np.eye(len(hessian)), np.ones(len(hessian)))
        assert np.isfinite(alpha).all()
        assert np.isfinite(pull).all()


def newton_many(r):
    n = r.n_features + 1
    for kind in range(5):
        proximal = kind in (losses.HINGE, losses.L1_SVR)
        for M in (1, 3, 8):
            code, fold = np.arange(r.n, dtype=np.int32) % 3, np.zeros(r.n, np.int32)
            positive, held_out = np.arange(M, dtype=np.int32) % 3, np.full(M, -1, np.int32)
            models = positive, held_out, np.ones((M, 2)), kind, 0.1
            alpha, out = np.zeros((r.n, M)), r.w(M)
            for whole in (False, True):
                primal.newton_many(
                    r.cut, (r.y, code, fold, r.cost), models, r.bias,
                    np.arange(M) % 2 == 0, r.w(M), np.zeros(M),
                    np.zeros((r.n, M) if proximal else (0, 0)), np.ones(M), alpha, out, r.w(M),
                    np.zeros((M, n, n) if whole else (0, 0, 0)),
                    np.zeros((M, losses.N_SUMS)), np.zeros((M, losses.N_REACHES)),
                    np.zeros((M, primal.N_VALUES)),
                )  # fmt: skip
            assert np.isfinite(alpha).all()
            assert np.isfinite(out).all()


def one_class_pairs(r):
    upper = np.ones(r.n)
    for quantum in (2.0**-52, 2.0**-1074, 1.0):
        alpha, w, f = np.arange(r.n) % 2 * 1.0, r.w(), np.full(r.n, np.nan)
        stats = np.zeros(dual.N_STATS)
        for _ in range(3):
            one_class.decision_values(r.cut, r.order, w, f)
            one_class.exchange(
                r.cut, upper, quantum, r.order, r.order[::-1].copy(), alpha, w, stats
            )
        assert ((alpha >= 0.0) & (alpha <= upper)).all()
        assert np.isfinite(w).all()
        seen, sums_of = np.zeros(one_class.N_SEEN), np.zeros(one_class.N_SUMS)
        for n in (0, r.n_features + 1):
            sizes = np.zeros(n)
            one_class.certify_rows(r.cut, upper, alpha, r.w(), 0.0, r.w(), sizes, f, seen)
        one_class.add_losses(f, upper, alpha, 1.0, sums_of)
        assert np.isfinite(seen).all()
        assert np.isfinite(sums_of).all()


def l1_columns(r):
    n, positions = r.n_features + 1, np.arange(r.n)
    counts, slots = np.zeros(n, np.int32), np.arange(n, dtype=np.int32)
    columns_kernels.count(r.indices, counts)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    columns = np.zeros(starts[-1], np.uint16), np.zeros(starts[-1], r.values.dtype)
    reached = np.zeros(n, np.int64)
    l1.collect_columns(r.cut, positions, slots, 0, starts[:-1].copy(), reached, *columns)
    assert ((reached >= 0) & (reached < max(r.n, 1))).all()
    every, order = np.arange(n), np.arange(n)[::-1].copy()
    size, length = np.sqrt(r.sq_norm + r.bias**2), r.lengths.astype(np.int32)
    for kind in (losses.SQUARED_HINGE, losses.LOGISTIC):
        rows = kind, r.y, r.cost
        step, f, w, pull = np.full(r.n, np.nan), np.full(r.n, np.nan), r.w(), r.w()
        for loss in (rows, (kind, np.zeros(0), np.zeros(0))):
            l1.evaluate_rows(r.cut, positions, *loss, r.bias, w, step, f, pull)
        state, v, h, d, moved = np.zeros((r.n, 2)), np.zeros(n), np.zeros(n), np.zeros(n), r.y + 0.0
        l1.expand(*rows, f, step, state)
        chosen = (starts, *columns), every
        l1.derivatives(*chosen, step, state, v, h)
        with np.errstate(all="ignore"):  # training refuses what overflows
            costs = np.ones(n), np.full(n, 0.5)
            l1.descend(*chosen, order, *costs, v, h, np.zeros(n), d, state)
            l1.gram_of_rows((starts, *columns), every, h, np.full((r.n, r.n), np.nan))
            l1.descend_on_primal(rows, f, *chosen, order, *costs, np.zeros(n), d, state)
            block, products = order[:5].copy(), np.full((len(order[:5]),) * 2, np.nan)
            for first in (0, 1):
                l1.gram((starts, *columns), block, state, first, 2, products)
            products = np.tril(products) + np.tril(products, -1).T
            l1.descend_together(*chosen, block, products, *costs, v, np.zeros(n), d, state)
            path = np.zeros((r.n, 2))
            l1.products_along(state, path)
            l1.move_along(state, path, 0.5, 0.5)
            l1.add_columns(*chosen, d, state)
        l1.move_alpha(kind, r.y, r.cost, step, state, moved)
        l1.total_loss(*rows, f, 0.5, state)
        l1.slope_of_loss(*rows, f, 0.5, state)
        assert np.isfinite(moved).all()
        seen = np.zeros(losses.N_SUMS)
        l1.certify_rows(*rows, f, step, 0.5, size, length, 0.0, seen)
        for ridge, free in ((0.0, False), (0.5, True)):
            l1.certify_weights(w, pull, 1.0, ridge, free, 0.5, 0.0)


def decision_values(r):
    out = np.full((r.n, 2), np.nan)
    weights = np.zeros((r.n_features // 2, 2))  # of some features only
    margins.decision_values(*r.whole, 1, weights, np.zeros(2), out)
    assert np.isfinite(out).all()


def normalize_rows(r):
    scaled, norms = r.values.copy(), np.full(r.n, np.nan)
    scaling.normalize_rows(r.lengths, scaled, norms)
    assert np.isfinite(norms).all()
    assert np.isfinite(scaled).all()
    scale, divided = np.full((2, r.n), np.nan), r.values.copy()
    scaling.row_norms(r.lengths, r.values, *scale)
    scaling.divide(np.repeat(np.arange(r.n, dtype=np.uint32), r.lengths), *scale, divided)
    assert divided.tolist() == scaled.tolist()


def weight_vectors(r):
    steps = np.ones((r.n, 2))
    sums.add_rows(r.cut, steps, r.bias, r.w(3))
    out, norms = np.ones(r.n), np.zeros(2)
    sums.add_to_mean(r.w(2), 1.0, r.w(2))
    sums.add_squared_distances(r.w(2)[:1], r.w(2), norms)
    sums.add_squared_distances(r.w(2), r.w(2), norms)
    sums.copy_columns(r.w(2), np.array([1]), r.w(3), np.array([2]))
    W = r.w(3)
    front = W.reshape(-1)[: 2 * len(W)].reshape(-1, 2)
    sums.copy_columns(W, np.array([0, 2]), front, np.arange(2))
    assert sums.squared_distance(out, out) == 0.0
    assert np.isfinite(sums.dot(out, out))


def scaled_columns(r):
    values, sq_norm = r.values.copy(), np.full(r.n, np.nan)
    scaling.scale_columns(r.whole[0], r.indices, values, 0.5 * np.ones(len(r.w())), sq_norm)
    np.testing.assert_array_equal(values, (0.5 * r.values).astype(r.dtype))
    assert np.isfinite(sq_norm).all()


def packed(r):
    picked = np.arange(r.n)[::-1].copy()
    for planes, room, most in product((0, 1, 2), (0, 10, 200), (1, 17, 1000)):
        words, kept = np.empty(2 + room), np.zeros(r.n, np.bool_)
        integers = words.view(np.int64)
        n = packed_rows.pack_rows(
            r.cut, np.arange(r.n), np.ones(r.n), np.empty(0), picked, 2, 2 + room,
            np.empty(17, np.int32), planes, words, kept,
        )  # fmt: skip
        assert kept[picked].tolist() == [k < n for k in range(r.n)]
        which, ranges = np.empty(n, np.int64), np.ones(r.n, np.uint16)
        region = np.array([2, 2 + room]), np.array([n])
        for first, last in ((0.3, 0.3), (0.0, 0.5), (0.0, 1.0)):
            found = packed_rows.rows_in_part(KEY, *region, integers, ranges, first, last, which)
            assert 0 <= found <= n
        starts, stops = np.empty((2, n), np.int64)
        size = max(most, 17)
        indices, values = np.empty(size, np.uint32), np.empty(size, r.dtype)
        done = packed_rows.unpack_rows(which, most, planes, words, starts, stops, indices, values)
        assert 0 < done <= n or not n
        places = integers[which[:done]], starts, stops
        for i, start, stop in zip(*(of[:done].tolist() for of in places), strict=True):
            assert values[start:stop].tolist() == r.values[r.starts[i] : r.stops[i]].tolist()
            assert indices[start:stop].tolist() == r.indices[r.starts[i] : r.stops[i]].tolist()
        work_on_packed(r, (which, most, planes, words), integers[which], (indices, values))


def work_on_packed(r, packed, at, entries):
    """Rows have their turn as those at these places do that are not packed."""
    unpacked = *np.empty((2, len(at)), np.int64), *entries, r.sq_norm[at]
    data, order = (r.y[at], r.cost[at]), np.arange(len(at))
    for kind in range(5):
        alpha, w, stats = np.zeros((2, len(at))), (r.w(), r.w()), np.zeros((2, dual.N_STATS))
        dual.dcd_packed(packed, unpacked, data, (kind, 0.1), r.bias, alpha[0], w[0], stats[0])
        dual.dcd_epoch(
            (r.starts[at], r.stops[at], r.indices, r.values, r.sq_norm[at]), data, order,
            (kind, 0.1), r.bias, alpha[1], w[1], stats[1], dual.PERMUTE,
            np.empty(0, np.float32), np.empty(0), np.empty(0, np.uint16), np.empty(0),
        )  # fmt: skip
        for one, other in (alpha, w, stats):
            np.testing.assert_allclose(one, other, 1e-9)


def random_orders(r):
    out = np.full(r.n, -1)
    orders.permutation(KEY, out)
    assert sorted(out.tolist()) == list(range(r.n))
    orders.draws(KEY, out)
    assert ((out >= 0) & (out < r.n)).all()
    for preference in (0.0, dual.MAX_PREFERENCE, dual.SHRUNK, np.nan, np.inf, -np.inf):
        out[:] = -1
        orders.schedule(KEY, np.full(r.n, preference, np.float32), out)
        assert ((out >= 0) & (out < r.n)).all()


def route(r):
    n_blocks, block = 2, np.full(r.n, -1)
    hashes = np.empty(r.n, np.uint64)
    routing.hash_rows(np.uint64(7), 2**61 + np.arange(r.n), hashes)
    block[:] = hashes % np.uint64(n_blocks)
    mantissa, exponent = np.ones(len(r.indices), np.int64), np.zeros(len(r.indices), np.uint8)
    labels, label_exponents = np.ones(r.n, np.int64), np.zeros(r.n, np.uint8)
    for entries, rows in ((len(r.indices), r.n), (len(r.indices), 1), (0, r.n), (8, 1)):
        shapes = [(n_blocks, rows)] * 4 + [(n_blocks, entries)] * 3 + [(n_blocks, 0)]
        kinds = [np.int64, np.int64, np.int64, np.uint8, np.uint32, np.int64, np.uint8, np.float64]
        arena = [np.zeros(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
        fill = np.zeros(n_blocks, np.int64), np.zeros(n_blocks, np.int64)
        stop = routing.scatter(
            0, r.n, block, 0, r.indptr, r.indices, mantissa, exponent, labels, label_exponents,
            np.empty(0), np.arange(n_blocks), *fill, *arena,
        )  # fmt: skip
        assert fill[0].sum() == stop
        assert fill[1].sum() == r.indptr[stop]


def columns(r):
    nnz, numbers = len(r.indices), np.arange(r.n)
    mantissa, exponent = np.arange(nnz), np.arange(nnz).astype(np.uint8)
    counts = np.zeros(r.n_features, np.uint32)
    columns_kernels.count(r.indices, counts)
    assert counts.tolist() == np.bincount(r.indices, minlength=r.n_features).tolist()
    at, ends = np.cumsum(counts, dtype=np.uint32) - counts, np.zeros(r.n_features, np.int64)
    out = np.zeros(nnz, np.uint32), np.zeros(nnz, np.int64), np.zeros(nnz, np.uint8)
    rows, middle = (r.lengths, numbers, r.indices, mantissa, exponent), r.n_features // 2
    for low, high in ((0, 0), (middle, r.n_features), (0, middle), (r.n_features, 1 << 32)):
        columns_kernels.scatter(*rows, low, high, 0, at, *out)
    order = np.argsort(r.indices, kind="stable")
    assert out[1].tolist() == order.tolist()
    assert out[0].tolist() == np.repeat(numbers, r.lengths)[order].tolist()
    for most in (0, 1, nnz):
        n = columns_kernels.cut(counts, counts, most, nnz, ends)
        assert n <= r.n_features
        assert ends[n - 1 : n].tolist() == [r.n_features][:n]
    cursors, taken, seen = r.starts.copy(), np.zeros(r.n, np.int64), []
    part = np.zeros(nnz, np.uint32), np.zeros(nnz, np.int64), np.zeros(nnz, np.uint8)
    for high in (0, 1, r.n_features):
        n = columns_kernels.take_range(
            r.stops, r.indices, mantissa, exponent, high, cursors, taken, *part
        )
        assert n == taken.sum()
        assert (part[0][:n] < high).all()
        seen += part[1][:n].tolist()
    assert sorted(seen) == list(range(nnz))
    assert cursors.tolist() == r.stops.tolist()


TRIED = {
    "columns": (columns, ["count", "cut", "scatter", "take_range"]),
    "crammer_singer": (
        crammer_singer,
        [
            "cs_epoch",
            "cs_extrapolate",
            "cs_add_dual_terms",
            "cs_certify_rows",
        ],
    ),
    "dual": (dcd_epoch, ["dcd_epoch"]),
    "dual certificates": (dual_certificates, ["add_dual_terms", "certify_rows"]),
    "l1": (
        l1_columns,
        [
            "evaluate_rows",
            "collect_columns",
            "gram",
            "gram_of_rows",
            "descend_together",
            "expand",
            "total_loss",
            "slope_of_loss",
            "derivatives",
            "descend",
            "descend_on_primal",
            "products_along",
            "move_along",
            "add_columns",
            "move_alpha",
            "certify_rows",
            "certify_weights",
        ],
    ),
    "many models": (many, ["dcd_many", "add_many_dual_terms", "certify_many"]),
    "packed": (packed, ["pack_rows", "rows_in_part", "unpack_rows", "dcd_packed"]),
    "margins": (decision_values, ["decision_values"]),
    "one class": (
        one_class_pairs,
        ["exchange", "certify_rows", "add_losses"],
    ),
    "orders": (random_orders, ["key_state", "permutation", "schedule", "uniform", "draws"]),
    "pegasos": (pegasos_epochs, ["pegasos_epoch"]),
    "primal": (newton, ["newton_rows", "solve"]),
    "many primal": (newton_many, ["newton_many"]),
    "routing": (route, ["hash_rows", "scatter"]),
    "scaling": (normalize_rows, ["normalize_rows", "row_norms", "divide"]),
    "columns scaled": (scaled_columns, ["scale_columns"]),
    "sums": (
        weight_vectors,
        [
            "add_rows",
            "add_to_mean",
            "add_squared_distances",
            "copy_columns",
            "dot",
            "squared_distance",
        ],
    ),
}
ELSEWHERE = {"code", "codec", "features", "fetch", "jit", "losses", "registers", "shared", "text"}
"""Tried over extremes by tests of their own, or by those of what calls them."""


@pytest.mark.parametrize("kernel", TRIED)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_index_is_out_of_range(kernel, rows, bias, dtype):
    with np.errstate(under="ignore"):
        TRIED[kernel][0](Rows(ROWS[rows], bias, dtype))


def test_every_kernel_is_tried():
    found = set()
    for module in pkgutil.walk_packages(blocklinear.kernels.__path__, "blocklinear.kernels."):
        loaded = importlib.import_module(module.name)
        if any(part in ELSEWHERE for part in module.name.split(".")):
            continue
        for name, kernel in vars(loaded).items():
            function = getattr(kernel, "py_func", kernel)
            own = inspect.isfunction(function) and function.__module__ == loaded.__name__
            if own and not name.startswith("_"):
                found.add(name)
    assert found == {name for _, names in TRIED.values() for name in names}
