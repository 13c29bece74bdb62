"""Artefacts: versions of models as MLflow models, which predict raw text with MLflow's own loader.

MLmodel               MLflow's description: signature, loader, requirements
requirements.txt      the packages, each with its version
input_example.json    texts to try
code/                 Millstream's code, and the user's functions
data/version.json     the version, `millstream.state.model_version`
data/arrays.safetensors
data/fields.json      the fields of the records that the first step reads
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from millstream.config.pipeline import StepList, pipeline_steps
from millstream.extras import parts_extras
from millstream.log.epochs import Scores
from millstream.log.journal.durability import write_whole
from millstream.registry.code_parts import copy_code, requirements
from millstream.state.model_version import ModelVersion
from millstream.steps.graph import build_graph
from millstream.steps.text_model import TextModel

__all__ = ["DATA", "Artefact", "read_artefact"]

_FOLDER = "version"
DATA = f"data/{_FOLDER}"
"""The folder of the version in an artefact."""
_FIELDS = "fields.json"
_EXAMPLES = ["a late goal decides the match", "night trains return to the coast"]


@dataclass(frozen=True)
class Artefact:
    """A version with what it needs to predict: the log's `fields`, and the `modules` of the user's functions.

    `scores` are those of its predictions before each record was learned; its folder does not have them.
    """

    version: ModelVersion
    fields: Sequence[str]
    modules: Sequence[str]
    scores: Scores

    def write(self, folder: Path) -> None:
        """Write the artefact as an MLflow model into a folder that does not exist."""
        import pandas as pd
        from mlflow.models import ModelSignature
        from mlflow.pyfunc import save_model
        from mlflow.types import ColSpec, DataType, Schema

        steps = _steps_of(self.version)
        extras = dict.fromkeys(extra for step in steps.steps for extra, _ in parts_extras(step.config))
        with tempfile.TemporaryDirectory(prefix="millstream-artefact-") as temporary:
            code, data = Path(temporary) / "code", Path(temporary) / _FOLDER
            copy_code(code, self.modules)
            self.version.save(data)
            write_whole(data / _FIELDS, json.dumps(list(self.fields)))
            save_model(
                folder,
                loader_module="millstream.registry.served_model",
                data_path=str(data),
                code_paths=[str(each) for each in sorted(code.iterdir())],
                signature=ModelSignature(
                    Schema([ColSpec(DataType.string, "text")]),
                    Schema([ColSpec(DataType.string, "predicted"), ColSpec(DataType.double, "probability")]),
                ),
                input_example=pd.DataFrame({"text": _EXAMPLES}),
                pip_requirements=requirements(extras, self.modules),
                metadata={"millstream.digest": self.version.digest},
            )


def read_artefact(data: Path) -> TextModel:
    """Build the model from the folder `data/version` of an artefact."""
    version = ModelVersion.load(data)
    steps = _steps_of(version)
    graph = build_graph(pipeline_steps(steps), json.loads((data / _FIELDS).read_bytes()))
    *before, node = graph.steps
    node.step.restore(version.state)
    return TextModel(f"the model {version.step!r} ({version.digest})", before, node)


def _steps_of(version: ModelVersion) -> StepList:
    """The steps up to the model, as a chain."""
    found: StepList = StepList.model_validate({"steps": [dict(step) for step in version.steps]})
    return found
