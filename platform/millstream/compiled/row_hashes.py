"""Hashes of rows, from the memory of Arrow arrays without Python objects; `docs/internals/formats.md` defines them.

`nodes` is the address of the nodes of a batch, its columns first (`millstream.compiled.nodes`), and `salts` the address
of two numbers for each column. Functions that get arrays, and no addresses, would count references to the arrays.

A hash is two lanes of 64 bits. A lane takes in a word: `state = folded(state ^ word, multiplier)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream.compiled.jit import compiled, folded, loaded
from millstream.compiled.nodes import BITS, FIELDS, FLOAT, LIST, NOTHING, STRUCT, TEXT

__all__ = ["hash_rows", "sum_rows"]

_KIND, _WIDTH, _VALIDITY, _FIRST, _DATA, _TEXT, _CHILD, _CHILDREN = range(FIELDS)

_FIRST_LANE, _SECOND_LANE = np.uint64(0xA0761D6478BD642F), np.uint64(0xE7037ED1A0B428DB)
_NULL = np.uint64(0x8EBC6AF09C88C6E3)
_0, _1 = np.uint64(0), np.uint64(1)
_BLOCK = 1024  # rows; their lanes stay in the processor's cache


@compiled
def sum_rows(nodes: Any, salts: Any, rows: Any) -> Any:
    """The sums of the first and of the second lanes of all rows, modulo 2^64."""
    first, second = np.empty(min(rows, _BLOCK), np.uint64), np.empty(min(rows, _BLOCK), np.uint64)
    one, other = _0, _0
    for start in range(0, rows, _BLOCK):
        count = min(rows - start, _BLOCK)
        _hash_rows(nodes.ctypes.data, salts.ctypes.data, len(salts), start, first[:count], second[:count])
        for row in range(count):
            one += first[row]
            other += second[row]
    return one, other


@compiled
def hash_rows(nodes: Any, salts: Any, first: Any, second: Any) -> None:
    """Write the two lanes of all rows."""
    _hash_rows(nodes.ctypes.data, salts.ctypes.data, len(salts), np.int64(0), first, second)


@compiled
def _hash_rows(nodes: Any, salts: Any, columns: Any, start: Any, first: Any, second: Any) -> None:
    first[:] = _0
    second[:] = _0
    for column in range(columns):
        _add_column(
            nodes, column, loaded(salts + 16 * column, 8), loaded(salts + 16 * column + 8, 8), start, first, second
        )
    for row in range(len(first)):
        first[row] = folded(first[row], _FIRST_LANE)
        second[row] = folded(second[row], _SECOND_LANE)


@compiled
def _take_bytes(address: Any, size: Any, one: Any, other: Any) -> Any:
    """Take in bytes, eight at a time; the last word is filled up with zeros."""
    end = address + size
    while address + 8 <= end:
        one, other = _take(one, other, loaded(address, 8))
        address += 8
    if address < end:
        one, other = _take(one, other, _few_bytes(address, end - address))
    return one, other


@compiled
def _add_column(nodes: Any, column: Any, one: Any, other: Any, start: Any, first: Any, second: Any) -> None:
    kind, width, validity = (
        _field(nodes, column, _KIND),
        _field(nodes, column, _WIDTH),
        _field(nodes, column, _VALIDITY),
    )
    data, text = _field(nodes, column, _DATA), _field(nodes, column, _TEXT)
    begin = _field(nodes, column, _FIRST) + start
    for row in range(len(first)):
        if kind <= FLOAT:
            a, b = _take_fixed(kind, width, validity, data, begin + row, one, other)
        elif kind == TEXT:
            a, b = _take_text(width, validity, data, text, begin + row, one, other)
        else:
            a, b = _take_value(nodes, column, start + row, one, other)
        first[row] += a
        second[row] += b


@compiled
def _take_value(nodes: Any, node: Any, index: Any, one: Any, other: Any) -> Any:
    """Take in the value of a node at an index, with all its children."""
    kind, width, at = _field(nodes, node, _KIND), _field(nodes, node, _WIDTH), _field(nodes, node, _FIRST) + index
    if kind <= TEXT:
        return _take_leaf(nodes, node, index, one, other)
    if not _is_valid(_field(nodes, node, _VALIDITY), at):
        return _take_null(one, other)
    child, stop = _field(nodes, node, _CHILD), _field(nodes, node, _CHILDREN)
    if kind == STRUCT:
        one, other = _take(one, other, _1)
        for each in range(child, child + stop):
            one, other = _take_value(nodes, each, index, one, other)
        return one, other
    start, stop = width * at, width * (at + 1)
    if kind == LIST:
        data = _field(nodes, node, _DATA)
        start, stop = _offset(data, width, at), _offset(data, width, at + 1)
    one, other = _take(one, other, np.uint64(stop - start))
    for each in range(start, stop):
        if _field(nodes, child, _KIND) == STRUCT and _field(nodes, child, _WIDTH):
            one, other = _take_leaves(nodes, child, each, one, other)
        elif _field(nodes, child, _KIND) <= TEXT:
            one, other = _take_leaf(nodes, child, each, one, other)
        else:
            one, other = _take_value(nodes, child, each, one, other)
    return one, other


@compiled
def _take_leaves(nodes: Any, node: Any, index: Any, one: Any, other: Any) -> Any:
    """Take in a struct of values without children; a call of the function that calls itself takes ten times as long."""
    if not _is_valid(_field(nodes, node, _VALIDITY), _field(nodes, node, _FIRST) + index):
        return _take_null(one, other)
    one, other = _take(one, other, _1)
    child = _field(nodes, node, _CHILD)
    for each in range(child, child + _field(nodes, node, _CHILDREN)):
        kind = _field(nodes, each, _KIND)
        if kind <= FLOAT:
            width, validity = _field(nodes, each, _WIDTH), _field(nodes, each, _VALIDITY)
            data, at = _field(nodes, each, _DATA), _field(nodes, each, _FIRST) + index
            one, other = _take_fixed(kind, width, validity, data, at, one, other)
        else:
            one, other = _take_leaf(nodes, each, index, one, other)
    return one, other


@compiled
def _take_leaf(nodes: Any, node: Any, index: Any, one: Any, other: Any) -> Any:
    """Take in a value without children."""
    kind, width, validity = _field(nodes, node, _KIND), _field(nodes, node, _WIDTH), _field(nodes, node, _VALIDITY)
    data, at = _field(nodes, node, _DATA), _field(nodes, node, _FIRST) + index
    if kind <= FLOAT:
        return _take_fixed(kind, width, validity, data, at, one, other)
    if kind == TEXT:
        return _take_text(width, validity, data, _field(nodes, node, _TEXT), at, one, other)
    if not _is_valid(validity, at):
        return _take_null(one, other)
    one, other = _take(one, other, np.uint64(width))
    return _take_bytes(data + width * at, width, one, other)


@compiled
def _take_text(width: Any, validity: Any, data: Any, text: Any, at: Any, one: Any, other: Any) -> Any:
    if not _is_valid(validity, at):
        return _take_null(one, other)
    start, stop = _offset(data, width, at), _offset(data, width, at + 1)
    one, other = _take(one, other, np.uint64(stop - start))
    return _take_bytes(text + start, stop - start, one, other)


@compiled
def _take_fixed(kind: Any, width: Any, validity: Any, data: Any, at: Any, one: Any, other: Any) -> Any:
    if kind == NOTHING or not _is_valid(validity, at):
        return _take_null(one, other)
    word = _0
    if kind == BITS:
        word = loaded(data + (at >> 3), 1) >> np.uint64(at & 7) & _1
    elif width == 8:
        word = loaded(data + 8 * at, 8)
        if kind == FLOAT and word << _1 > np.uint64(0xFFE0000000000000):
            word = np.uint64(0x7FF8000000000000)
    elif width == 4:
        word = loaded(data + 4 * at, 4)
        if kind == FLOAT and word & np.uint64(0x7FFFFFFF) > np.uint64(0x7F800000):
            word = np.uint64(0x7FC00000)
    elif width == 2:
        word = loaded(data + 2 * at, 2)
        if kind == FLOAT and word & np.uint64(0x7FFF) > np.uint64(0x7C00):
            word = np.uint64(0x7E00)
    else:
        word = loaded(data + at, 1)
    one, other = _take(one, other, word)
    if word == _NULL:
        one, other = _take(one, other, _1)
    return one, other


@compiled
def _field(nodes: Any, node: Any, field: Any) -> Any:
    return np.int64(loaded(nodes + 8 * (FIELDS * node + field), 8))


@compiled
def _take(one: Any, other: Any, word: Any) -> Any:
    return folded(one ^ word, _FIRST_LANE), folded(other ^ word, _SECOND_LANE)


@compiled
def _take_null(one: Any, other: Any) -> Any:
    one, other = _take(one, other, _NULL)
    return _take(one, other, _0)


@compiled
def _is_valid(validity: Any, at: Any) -> Any:
    return validity == 0 or loaded(validity + (at >> 3), 1) >> np.uint64(at & 7) & _1 != _0


@compiled
def _offset(data: Any, width: Any, at: Any) -> Any:
    return np.int64(loaded(data + 4 * at, 4)) if width == 4 else np.int64(loaded(data + 8 * at, 8))


@compiled
def _few_bytes(address: Any, size: Any) -> Any:
    """One to seven bytes as a number, without a look at the bytes behind them."""
    if size >= 4:
        return loaded(address, 4) | loaded(address + size - 4, 4) << np.uint64(8 * (size - 4))
    middle = size >> 1
    return (
        loaded(address, 1)
        | loaded(address + middle, 1) << np.uint64(8 * middle)
        | loaded(address + size - 1, 1) << np.uint64(8 * (size - 1))
    )
