"""The option `fields` of sources: the columns of the records, and the field of the input that each is taken from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

__all__ = ["USUAL_FIELDS", "Fields"]

_Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]

USUAL_FIELDS = {"text": "text", "label": "label", "time": "time"}

Fields = Annotated[
    dict[_Name, Annotated[str, Field(min_length=1)]],
    Field(
        min_length=1,
        description="The fields to take, as `ours: theirs`. Millstream itself uses `text`, `label` and `time`; "
        "a record without text is a reject.",
    ),
]
