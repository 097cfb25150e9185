"""What the compiler emits for the entries of rows, see `registers`: imported to compile only."""

from llvmlite import ir
from numba.core import cgutils

_AT_ONCE = 8  # entries
_DOUBLE, _INDEX = ir.DoubleType(), ir.IntType(64)
_ALIGNED = 8  # columns need not begin with a register


class _Entries:
    """Emits code for entries of a row and `lanes` columns of weights from j on."""

    def __init__(self, builder, lanes, indices, values, weights, j):
        self._builder, self._lanes, self._j = builder, lanes, j
        self._kind = ir.VectorType(_DOUBLE, lanes) if lanes > 1 else _DOUBLE
        self._indices, self._values, self._weights = indices.data, values.data, weights.data
        _, self._columns = cgutils.unpack_tuple(builder, weights.shape)

    def lanes_at(self, data, j):
        """Return where columns from j on of an array are."""
        return self._builder.bitcast(self._builder.gep(data, [j]), self._kind.as_pointer())

    def place(self, p):
        """Return where the weights of entry p are."""
        builder = self._builder
        feature = builder.zext(builder.load(builder.gep(self._indices, [p])), _INDEX)
        row = builder.mul(feature, self._columns)
        return self.lanes_at(self._weights, builder.add(row, self._j))

    def value(self, p):
        """Return the value of entry p, in all lanes."""
        builder = self._builder
        v = builder.load(builder.gep(self._values, [p]))
        if v.type != _DOUBLE:
            v = builder.fpext(v, _DOUBLE)
        if self._lanes == 1:
            return v
        one = builder.insert_element(ir.Constant(self._kind, ir.Undefined), v, _INDEX(0))
        first = ir.Constant(ir.VectorType(ir.IntType(32), self._lanes), [0] * self._lanes)
        return builder.shuffle_vector(one, ir.Constant(self._kind, ir.Undefined), first)

    def product(self, p):
        """Return weights times value of entry p."""
        weights = self._builder.load(self.place(p), align=_ALIGNED)
        return self._builder.fmul(weights, self.value(p))


def _tree(builder, terms):
    """Emit the sum of terms, in pairs."""
    while len(terms) > 1:
        terms = [builder.fadd(a, b) for a, b in zip(terms[::2], terms[1::2], strict=True)]
    return terms[0]


def emit_products(builder, lanes, indices, values, W, f, start, stop, j):
    """Emit sums of weights times values."""
    row = _Entries(builder, lanes, indices, values, W, j)
    numbers = row.lanes_at(f.data, j)
    total = cgutils.alloca_once_value(builder, builder.load(numbers, align=_ALIGNED))
    whole = builder.add(start, builder.and_(builder.sub(stop, start), _INDEX(-_AT_ONCE)))
    with cgutils.for_range_slice(builder, start, whole, _INDEX(_AT_ONCE)) as (p, _):
        terms = [row.product(builder.add(p, _INDEX(k))) for k in range(_AT_ONCE)]
        builder.store(builder.fadd(builder.load(total), _tree(builder, terms)), total)
    with cgutils.for_range_slice(builder, whole, stop, _INDEX(1)) as (p, _):
        builder.store(builder.fadd(builder.load(total), row.product(p)), total)
    builder.store(builder.load(total), numbers, align=_ALIGNED)


def emit_multiples(builder, lanes, indices, values, W, step, start, stop, j):
    """Emit multiples of values that are added to weights."""
    row = _Entries(builder, lanes, indices, values, W, j)
    steps = builder.load(row.lanes_at(step.data, j), align=_ALIGNED)
    with cgutils.for_range_slice(builder, start, stop, _INDEX(1)) as (p, _):
        place = row.place(p)
        product = builder.fmul(steps, row.value(p))
        weights = builder.load(place, align=_ALIGNED)
        builder.store(builder.fadd(weights, product), place, align=_ALIGNED)
