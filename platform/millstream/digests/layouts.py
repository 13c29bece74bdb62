"""Layouts of Arrow types in memory, and the nodes that describe a batch to the compiled hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from pyarrow import types

from millstream.arrays import Array
from millstream.compiled.nodes import BITS, BYTES, FIELDS, FIXED, FIXED_LIST, FLOAT, LIST, NOTHING, STRUCT, TEXT

__all__ = ["Layout", "layout_of", "nodes_of"]


@dataclass(frozen=True)
class Layout:
    """The layout of a type: its name for hashes, the kind and width of its node, and the layouts of its children.

    `plain`: the type to which an array is cast first; None if the array is read as it is.
    """

    name: str
    kind: int
    width: int = 0
    children: tuple[Layout, ...] = ()
    plain: pa.DataType | None = None


@lru_cache(maxsize=1024)
def layout_of(kind: pa.DataType) -> Layout:
    """The layout of a type; a TypeError if there is none.

    >>> layout_of(pa.dictionary(pa.int8(), pa.string())).name, layout_of(pa.large_list(pa.int8())).name
    ('text', 'list<int8>')
    """
    plain = _plain(kind)
    layout = _layout(plain)
    return layout if plain == kind else Layout(layout.name, layout.kind, layout.width, layout.children, plain)


def nodes_of(layouts: Sequence[Layout], batch: pa.RecordBatch) -> tuple[Array, list[pa.Array]]:
    """The nodes of a batch and of all children, and the arrays that must live as long as the nodes are read."""
    arrays = [
        column if layout.plain is None else _cast(column, layout.plain)
        for layout, column in zip(layouts, batch.itercolumns(), strict=True)
    ]
    pending = list(layouts)
    numbers: list[int] = []
    for layout, array in zip(pending, arrays, strict=False):  # both grow with the children
        buffers = array.buffers()
        validity = buffers[0]
        numbers += (
            layout.kind,
            layout.width,
            validity.address if validity is not None and array.null_count else 0,
            array.offset,
            _address(buffers, 1),
            _address(buffers, 2),
            len(pending),
            len(layout.children),
        )
        if layout.children:
            pending += layout.children
            arrays += _children(array)
    return np.array(numbers, np.int64).reshape(-1, FIELDS), arrays


def _layout(kind: pa.DataType) -> Layout:
    if types.is_null(kind):
        return Layout("null", NOTHING)
    if types.is_boolean(kind):
        return Layout("bool", BITS, 1)
    if types.is_string(kind) or types.is_large_string(kind):
        return Layout("text", TEXT, 8 if types.is_large_string(kind) else 4)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return Layout("bytes", TEXT, 8 if types.is_large_binary(kind) else 4)
    if types.is_fixed_size_binary(kind):
        return Layout("bytes", BYTES, kind.byte_width)
    if types.is_nested(kind) or types.is_run_end_encoded(kind):
        return _nested(kind)
    width = kind.bit_width // 8
    if types.is_decimal(kind) or width > 8:
        return Layout(str(kind), BYTES, width)
    return Layout(str(kind), FLOAT if types.is_floating(kind) else FIXED, width)


def _nested(kind: pa.DataType) -> Layout:
    if types.is_struct(kind):
        children = tuple(layout_of(field.type) for field in kind)
        named = ",".join(f"{field.name}:{child.name}" for field, child in zip(kind, children, strict=True))
        return Layout(f"struct<{named}>", STRUCT, int(not any(child.children for child in children)), children)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        child = layout_of(kind.value_type)
        if types.is_fixed_size_list(kind):
            return Layout(f"list<{child.name}>", FIXED_LIST, kind.list_size, (child,))
        return Layout(f"list<{child.name}>", LIST, 8 if types.is_large_list(kind) else 4, (child,))
    message = f"the type {kind} has no digest; make lists, structs or text of it"
    raise TypeError(message)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without dictionaries, views, extensions and maps."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.list_(pa.struct([("key", _plain(kind.key_type)), ("value", _plain(kind.item_type))]))
    if types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type), kind.list_size)
    if types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


def _cast(array: pa.Array, plain: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    return array if array.type == plain else array.cast(plain)


def _children(array: pa.Array) -> list[pa.Array]:
    if isinstance(array, pa.StructArray):
        return [array.field(index) for index in range(array.type.num_fields)]
    return [array.values]


def _address(buffers: list[pa.Buffer | None], index: int) -> int:
    buffer = buffers[index] if index < len(buffers) else None
    return 0 if buffer is None else int(buffer.address)
