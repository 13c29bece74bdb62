"""A plug-in step: the numbers of a text as features."""

from __future__ import annotations

import pyarrow as pa

from millstream.plugin import Result, Scope, Step, StepConfig, Traits
from millstream_models.features import features_field

__all__ = ["NumberFeatures"]


class NumberFeatures(StepConfig):
    """Reads `text` as so many numbers with spaces between them, and makes the column `features`."""

    dimensions: int

    def build(self, records: pa.Schema) -> _NumberStep:
        return _NumberStep(self, records)


class _NumberStep(Step):
    traits = Traits(Scope.STATELESS, ordered=False, idempotent=True, only_adds=True)

    def __init__(self, config: NumberFeatures, records: pa.Schema) -> None:
        super().__init__(records)
        self._dimensions = config.dimensions

    def process(self, records: pa.Table) -> Result:
        rows = [
            [
                {"index": index, "count": float(part)}
                for index, part in zip(range(self._dimensions), text.split(), strict=True)
            ]
            for text in records["text"].to_pylist()
        ]
        field = features_field(self._dimensions)
        return Result(records.append_column(field, pa.chunked_array([pa.array(rows, field.type)])))
