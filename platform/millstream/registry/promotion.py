"""Promotions: the wish that running pipelines go on with a version, as a tag of the registered model.

A tag stays until the next promotion, so a pipeline that is down now follows when it starts again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

__all__ = ["CHAMPION", "PROMOTED", "Promotion"]

CHAMPION = "champion"
"""The alias of the version that pipelines use."""
PROMOTED = "millstream.promoted"
"""The tag of a registered model that has its last promotion."""


@dataclass(frozen=True)
class Promotion:
    """The wish for one version of the model `name`, made at the time `at` in microseconds since 1970, which names it.

    With `as_is`, the version replaces the model at once, without the records that it has not learned.

    >>> Promotion.from_text("news", Promotion("news", 4, 17, as_is=True).text())
    Promotion(name='news', version=4, at=17, as_is=True)
    """

    name: str
    version: int
    at: int
    as_is: bool = False

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.version}"

    def text(self) -> str:
        """The value of the tag."""
        return json.dumps({key: value for key, value in asdict(self).items() if key != "name"})

    @staticmethod
    def from_text(name: str, text: str) -> Promotion:
        return Promotion(name, **json.loads(text))
