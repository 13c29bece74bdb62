"""Pipelines to simulate."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.simulated_pipeline import PipelineFactory, demo_pipelines, graph_pipelines, keyed_pipelines


@pytest.fixture
def demo(tmp_path: Path) -> PipelineFactory:
    return demo_pipelines(tmp_path)


@pytest.fixture
def keyed(tmp_path: Path) -> PipelineFactory:
    return keyed_pipelines(tmp_path)


@pytest.fixture
def graph(tmp_path: Path) -> PipelineFactory:
    return graph_pipelines(tmp_path)
