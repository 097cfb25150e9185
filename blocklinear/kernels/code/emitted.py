"""What the compiler emits for the entries of rows, see `registers`: imported to compile only."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError

_AT_ONCE = 8  # entries
_DOUBLE, _INDEX = ir.DoubleType(), ir.IntType(64)


class _Rows:
    """What is emitted for the entries of rows, and columns j to j + lanes - 1 of their weights.

    Attributes
    ----------
    numbers : ir.Value        where columns j to j + lanes - 1 of the last of the arrays are

    Parameters
    ----------
    context, builder
        What Numba gives those who emit code.
    lanes : int
    arrays : list of (type, ir.Value)
        indices, values, weights; numbers of the weight vectors.
    j : ir.Value
    """

    def __init__(self, context, builder, lanes, arrays, j):
        self._builder, self._lanes, self._j = builder, lanes, j
        self._kind = ir.VectorType(_DOUBLE, lanes) if lanes > 1 else _DOUBLE
        indices, values, weights, others = (
            context.make_array(kind)(context, builder, array) for kind, array in arrays
        )
        self._indices, self._values, self._weights = indices.data, values.data, weights.data
        _, self._columns = cgutils.unpack_tuple(builder, weights.shape)
        self.numbers = self._lane_place(others.data, j)

    def _lane_place(self, data, j):
        """Return where columns from j on of an array are."""
        return self._builder.bitcast(self._builder.gep(data, [j]), self._kind.as_pointer())

    def place(self, p):
        """Return where the weights of entry p are."""
        builder = self._builder
        feature = builder.zext(builder.load(builder.gep(self._indices, [p])), _INDEX)
        row = builder.mul(feature, self._columns)
        return self._lane_place(self._weights, builder.add(row, self._j))

    def load(self, place):
        """Return the numbers at a place, which need not begin with a register."""
        return self._builder.load(place, align=8)

    def store(self, numbers, place):
        """Put numbers at a place."""
        self._builder.store(numbers, place, align=8)

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
        return self._builder.fmul(self.load(self.place(p)), self.value(p))


def _tree(builder, terms):
    """Emit the sum of terms, in pairs."""
    while len(terms) > 1:
        terms = [builder.fadd(a, b) for a, b in zip(terms[::2], terms[1::2], strict=True)]
    return terms[0]


def emit_products(builder, rows, start, stop):
    """Emit sums of weights times values."""
    total = cgutils.alloca_once_value(builder, rows.load(rows.numbers))
    whole = builder.add(start, builder.and_(builder.sub(stop, start), _INDEX(-_AT_ONCE)))
    with cgutils.for_range_slice(builder, start, whole, _INDEX(_AT_ONCE)) as (p, _):
        terms = [rows.product(builder.add(p, _INDEX(k))) for k in range(_AT_ONCE)]
        builder.store(builder.fadd(builder.load(total), _tree(builder, terms)), total)
    with cgutils.for_range_slice(builder, whole, stop, _INDEX(1)) as (p, _):
        builder.store(builder.fadd(builder.load(total), rows.product(p)), total)
    rows.store(builder.load(total), rows.numbers)


def emit_multiples(builder, rows, start, stop):
    """Emit multiples of values that are added to weights."""
    steps = rows.load(rows.numbers)
    with cgutils.for_range_slice(builder, start, stop, _INDEX(1)) as (p, _):
        place = rows.place(p)
        rows.store(builder.fadd(rows.load(place), builder.fmul(steps, rows.value(p))), place)


def code_of(emit, lanes, *arrays):
    """Return the types that a function has for some arrays, and what emits it.

    Raises
    ------
    TypingError
        If numbers of an array are not side by side.
    """
    if any(array.layout != "C" for array in arrays):
        raise TypingError("arrays must be in C order")

    def generate(context, builder, signature, args):
        arrays = list(zip(signature.args[1:5], args[1:5], strict=True))
        start, stop, j = args[5:]
        emit(builder, _Rows(context, builder, lanes.literal_value, arrays, j), start, stop)
        return context.get_dummy_value()

    return types.void(lanes, *arrays, *[types.int64] * 3), generate
