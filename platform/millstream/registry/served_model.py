"""The loader of an artefact, which MLflow calls: a model that predicts the column `text` of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from millstream.registry.artefact import read_artefact

if TYPE_CHECKING:
    import pandas as pd

__all__: list[str] = []


class _ServedModel:
    """Predicts texts; `predict` has the form that MLflow calls."""

    def __init__(self, data: Path) -> None:
        self._model = read_artefact(data)

    def predict(self, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:
        """Return `predicted` and `probability` for the column `text`."""
        import pandas as pd

        found = self._model.predict(model_input["text"].tolist())
        rows = {"predicted": [each.predicted for each in found], "probability": [each.probability for each in found]}
        return pd.DataFrame(rows, index=model_input.index)


def _load_pyfunc(path: str) -> _ServedModel:
    """MLflow calls this function with the folder `data/version` of an artefact."""
    return _ServedModel(Path(path))
