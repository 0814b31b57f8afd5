"""Vector code for the index: one record against 32 means or 32 boxes at once.

Numba turns a loop over lanes into vector code only after it has checked at run time that no two
arrays overlap, and keeps its sums in memory all the same; for 32 lanes that costs more than the
arithmetic. So these few functions are written in the compiler's own language (LLVM), which knows
vectors on every kind of processor. The tests hold a NumPy twin of each.

Sets of lanes are bits of a whole number: lane 0 is the lowest bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 32
MOST = 2**31 - 1  # no group ever gets that large
CACHE_LINE = 64  # bytes

_FLOAT, _INT, _LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_FLOATS, _INTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES)
_ZEROS = ir.Constant(_FLOATS, None)
_INFINITE = ir.Constant(_FLOATS, [float("inf")] * LANES)


@intrinsic
def point_distances(context: Any, points: Any, leaf: Any, record: Any, out: Any) -> Any:
    """Writes the squared distances to ``points[leaf, :, lane]`` into ``out``."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        points, leaf, record, out = _arguments(context, builder, signature, values)

        def offset(place: Any, x: Any) -> Any:
            return builder.fsub(_load(builder, points, place, _FLOATS), x)

        _store(builder, out, _squares(builder, record, leaf, offset))
        return context.get_dummy_value()

    return types.void(points, types.int64, record, out), generate


@intrinsic
def box_distances(context: Any, low: Any, high: Any, node: Any, record: Any, out: Any) -> Any:
    """Writes the squared distances to the boxes ``low[node, :, lane]`` to ``high`` into ``out``."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        low, high, node, record, out = _arguments(context, builder, signature, values)

        def gap(place: Any, x: Any) -> Any:
            below = builder.fsub(_load(builder, low, place, _FLOATS), x)
            above = builder.fsub(x, _load(builder, high, place, _FLOATS))
            return _larger(builder, _larger(builder, below, above), _ZEROS)

        _store(builder, out, _squares(builder, record, node, gap))
        return context.get_dummy_value()

    return types.void(low, high, types.int64, record, out), generate


@intrinsic
def within(context: Any, distances: Any, limit: Any, sizes: Any, row: Any, need: Any) -> Any:
    """The lanes at no more than ``limit`` whose ``sizes[row, lane]`` is at least ``need``."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        distances, limit, sizes, row, need = _arguments(context, builder, signature, values)
        shown = _load(builder, distances, _LONG(0), _FLOATS)
        close = builder.fcmp_ordered("<=", shown, _spread(builder, limit))
        return _bits(builder, builder.and_(close, _enough(builder, sizes, row, need)))

    return types.int64(distances, types.float32, sizes, types.int64, types.int64), generate


@intrinsic
def nearest(context: Any, distances: Any, floor: Any, sizes: Any, row: Any, need: Any) -> Any:
    """The lanes at the least distance of all that are large enough; below ``floor`` all alike."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        distances, floor, sizes, row, need = _arguments(context, builder, signature, values)
        enough = _enough(builder, sizes, row, need)
        shown = _load(builder, distances, _LONG(0), _FLOATS)
        shown = _larger(builder, shown, _spread(builder, floor))
        shown = builder.select(enough, shown, _INFINITE)
        numbers = ("nnan",)  # all of them are: their order is plain
        least = _call(
            builder, f"llvm.vector.reduce.fmin.v{LANES}f32", _FLOAT, shown, fastmath=numbers
        )
        closest = builder.fcmp_ordered("<=", shown, _spread(builder, least))
        return _bits(builder, builder.and_(closest, enough))

    return types.int64(distances, types.float32, sizes, types.int64, types.int64), generate


@intrinsic
def lowest(context: Any, lanes: Any) -> Any:
    """The first lane of a set that is not empty."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], ir.IntType(1)(1))

    return types.int64(types.int64), generate


@intrinsic
def highest(context: Any, lanes: Any) -> Any:
    """The last lane of a set that is not empty."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.sub(_LONG(63), builder.ctlz(values[0], ir.IntType(1)(1)))

    return types.int64(types.int64), generate


@intrinsic
def fetch(context: Any, table: Any, row: Any) -> Any:
    """Asks for a row of a matrix (C order) that will be needed soon, so that nobody waits."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        table, row = _arguments(context, builder, signature, values)
        start = builder.bitcast(table.data, ir.IntType(8).as_pointer())
        size = builder.extract_value(table.strides, 0)
        first = builder.mul(row, size)
        lines = builder.udiv(builder.add(size, _LONG(CACHE_LINE - 1)), _LONG(CACHE_LINE))
        with cgutils.for_range(builder, lines) as loop:
            place = builder.add(first, builder.mul(loop.index, _LONG(CACHE_LINE)))
            there = builder.gep(start, [place])
            _call(builder, "llvm.prefetch.p0", ir.VoidType(), there, _INT(0), _INT(3), _INT(1))
        return context.get_dummy_value()

    return types.void(table, types.int64), generate


def _arguments(context: Any, builder: Any, signature: Any, values: Any) -> list[Any]:
    """The values of a call; arrays as structures with address and shape."""
    return [
        context.make_array(kind)(context, builder, value)
        if isinstance(kind, types.Array)
        else value
        for kind, value in zip(signature.args, values, strict=True)
    ]


def _squares(builder: Any, record: Any, row: Any, offset: Callable[[Any, Any], Any]) -> Any:
    """Adds the squares of ``offset(place, x)`` over the dimensions of a record."""
    dimensions = builder.extract_value(record.shape, 0)
    first = builder.mul(row, builder.mul(dimensions, _LONG(LANES)))
    total = cgutils.alloca_once_value(builder, _ZEROS)
    with cgutils.for_range(builder, dimensions) as loop:
        x = _spread(builder, builder.load(builder.gep(record.data, [loop.index])))
        away = offset(builder.add(first, builder.mul(loop.index, _LONG(LANES))), x)
        added = _call(
            builder, f"llvm.fmuladd.v{LANES}f32", _FLOATS, away, away, builder.load(total)
        )
        builder.store(added, total)
    return builder.load(total)


def _enough(builder: Any, sizes: Any, row: Any, need: Any) -> Any:
    most = _LONG(MOST)  # cut to 32 bits, a larger need would become a small one
    need = builder.select(builder.icmp_signed(">", need, most), most, need)
    there = _load(builder, sizes, builder.mul(row, _LONG(LANES)), _INTS)
    return builder.icmp_signed(">=", there, _spread(builder, builder.trunc(need, _INT)))


def _load(builder: Any, array: Any, place: Any, kind: Any) -> Any:
    there = builder.bitcast(builder.gep(array.data, [place]), kind.as_pointer())
    return builder.load(there, align=4)


def _store(builder: Any, array: Any, vector: Any) -> None:
    builder.store(vector, builder.bitcast(array.data, vector.type.as_pointer()), align=4)


def _spread(builder: Any, scalar: Any) -> Any:
    """The same value in every lane."""
    nothing = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
    first = builder.insert_element(nothing, scalar, _INT(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_INTS, [0] * LANES))


def _larger(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", one, other), one, other)


def _bits(builder: Any, flags: Any) -> Any:
    return builder.zext(builder.bitcast(flags, ir.IntType(LANES)), _LONG)


def _call(
    builder: Any, name: str, result: Any, *arguments: Any, fastmath: tuple[str, ...] = ()
) -> Any:
    """Calls a function that every LLVM brings along."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, list(arguments), fastmath=fastmath)
