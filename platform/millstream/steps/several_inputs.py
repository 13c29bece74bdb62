"""Steps with several inputs as steps with one: their streams travel as one table, whose rows know their input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from millstream.arrays import Array
from millstream.errors import ConfigError
from millstream.records import OFFSET, PATH, RANK, TIME
from millstream.state.keyed_state import KeyedSnapshot
from millstream.steps.contracts import FindsLateRecords, JoinStep, Output, OwnsShards, Result, State, Traits
from millstream.substreams import Watermark

__all__ = ["JoinedInputs", "OneInput"]

_INPUT = "_input"
"""The column with the number of the input, while several inputs are one table."""
_SHARED = (RANK, OFFSET, TIME, PATH)


class JoinedInputs:
    """The columns of several inputs in one table: identities and keys once, and the other fields of each input.

    >>> texts, labels = pa.table({"_rank": [0], "id": ["a"], "x": [1]}), pa.table({"_rank": [1], "id": ["b"]})
    >>> joined = JoinedInputs([texts.schema, labels.schema], ["id"])
    >>> table = pa.concat_tables(joined.part(number, each) for number, each in enumerate([labels, texts][::-1]))
    >>> table.column_names, table["0.x"].to_pylist()
    (['_rank', 'id', '_input', '0.x'], [1, None])
    >>> inputs, order = joined.split(table)
    >>> inputs[1].to_pylist(), order.tolist()
    ([{'_rank': 1, 'id': 'b'}], [0, 1])
    """

    def __init__(self, inputs: Sequence[pa.Schema], key: Sequence[str]) -> None:
        shared: dict[str, pa.Field] = {}
        for schema in inputs:
            for field in schema:
                known = shared.get(field.name, field)
                if field.name in (*_SHARED, *key) and known.type != field.type:
                    message = f"its inputs have {field.name!r} as {known.type} and as {field.type}; give both one type"
                    raise ConfigError(message)
                if field.name in (*_SHARED, *key):
                    shared[field.name] = known
        self._inputs = list(inputs)
        self._names = [[_name(number, name, shared) for name in schema.names] for number, schema in enumerate(inputs)]
        own = [
            field.with_name(name)
            for schema, names in zip(inputs, self._names, strict=True)
            for field, name in zip(schema, names, strict=True)
            if name not in shared
        ]
        self.schema = pa.schema([*shared.values(), pa.field(_INPUT, pa.int8()), *own])

    def part(self, number: int, records: pa.Table) -> pa.Table:
        """The records of one input with the columns of all inputs."""
        size = records.num_rows
        given = dict(zip(self._names[number], records.select(self._inputs[number].names).columns, strict=True))
        given[_INPUT] = pa.repeat(pa.scalar(number, pa.int8()), size)
        columns = [given[field.name] if field.name in given else _absent(field, size) for field in self.schema]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def split(self, records: pa.Table) -> tuple[list[pa.Table], Array]:
        """The records of each input, and the input of each record."""
        order = records[_INPUT].to_numpy()
        inputs = []
        for number, (schema, names) in enumerate(zip(self._inputs, self._names, strict=True)):
            mine = records.select(names).filter(pa.array(order == number))
            inputs.append(mine.rename_columns(schema.names).cast(schema))
        return inputs, order


class OneInput:
    """A step with several inputs that gets them in one table."""

    def __init__(self, step: JoinStep, inputs: JoinedInputs) -> None:
        self.step, self._inputs = step, inputs

    @property
    def traits(self) -> Traits:
        return self.step.traits

    @property
    def outputs(self) -> Sequence[Output]:
        return self.step.outputs

    def process(self, records: pa.Table) -> Result:
        return self.step.process(*self._inputs.split(records))

    def ended(self, substream: Any) -> Result:
        return self.step.ended(substream)

    def resume(self, watermark: Watermark) -> None:
        if isinstance(self.step, FindsLateRecords):
            self.step.resume(watermark)

    def own(self, owns: Callable[[int], bool]) -> None:
        if isinstance(self.step, OwnsShards):
            self.step.own(owns)

    def save(self) -> State | KeyedSnapshot:
        return self.step.save()

    def restore(self, state: State) -> None:
        self.step.restore(state)


def _name(number: int, name: str, shared: dict[str, pa.Field]) -> str:
    return name if name in shared else f"{number}.{name}"


def _absent(field: pa.Field, size: int) -> pa.Array:
    """The column of an input that does not have it; a path is empty."""
    return pa.repeat(pa.scalar(b"", field.type), size) if field.name == PATH else pa.nulls(size, field.type)
