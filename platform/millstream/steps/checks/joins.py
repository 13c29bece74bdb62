"""The battery for steps with several inputs: all checks of a step, with the inputs dealt into batches in any way."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.records import in_step_order
from millstream.steps.checks.steps import check_step
from millstream.steps.contracts import JoinStepConfig, Step
from millstream.steps.several_inputs import JoinedInputs, OneInput

__all__ = ["check_join"]


def check_join(config: JoinStepConfig, inputs: Sequence[pa.Table], skip: Collection[str] = ()) -> None:
    """Run all checks of a step on one with several inputs, with these records for each of them.

    Each input has ranks of its own. Its records come in step order, mixed with those of the other inputs, in batches
    that have records of all inputs, of some, or of one.

    >>> from millstream.steps.join import Join
    >>> position = {"_rank": [0] * 8, "_offset": range(8), "_time": range(8), "id": [*"abcdabcd"]}
    >>> texts, labels = pa.table(position), pa.table({**position, "_rank": [1] * 8})
    >>> check_join(Join(by="id", within="2us"), [texts, labels], skip=["another_process_changes_nothing"])
    """
    schemas = [table.schema for table in inputs]
    step = config.build(schemas)
    together = JoinedInputs(schemas, step.traits.key_fields)
    records = in_step_order(pa.concat_tables([together.part(number, table) for number, table in enumerate(inputs)]))
    check_step(_Together(config, tuple(schemas)), records, skip)


@dataclass(frozen=True)
class _Together:
    """The config of a step with several inputs, as one of a step that gets them in one table."""

    config: JoinStepConfig
    inputs: tuple[pa.Schema, ...]
    type: str = "together"

    def __repr__(self) -> str:
        return repr(self.config)

    def build(self, records: pa.Schema) -> Step:
        step = self.config.build(self.inputs)
        return OneInput(step, JoinedInputs(self.inputs, step.traits.key_fields))
