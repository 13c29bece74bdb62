"""Trials on each engine, validated by thirty real runs that SIGKILL ends at random moments."""

from __future__ import annotations

import pytest

from scripts.validated_trials import main


@pytest.mark.soak
@pytest.mark.spark
def test_sixty_trials_are_identical_to_real_runs_by_position_and_digest() -> None:
    assert main(30) == 0
