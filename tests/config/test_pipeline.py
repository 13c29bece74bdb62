"""Named pipelines: the steps that they make of their options."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel

from millstream.config.pipeline import pipeline_steps
from millstream.errors import ConfigError
from millstream_models.hashed_text import HashedText


class Sized(BaseModel):
    use: Literal["sized"] = "sized"
    dimensions: int

    def steps(self) -> list[HashedText]:
        return [HashedText(dimensions=self.dimensions)]


def test_an_option_that_makes_a_wrong_step_is_an_error_of_the_config() -> None:
    assert [step.name for step in pipeline_steps(Sized(dimensions=1024))] == ["hashed_text"]
    with pytest.raises(ConfigError, match=r"'sized' makes a wrong HashedText: dimensions: Input should"):
        pipeline_steps(Sized(dimensions=0))
