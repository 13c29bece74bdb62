"""The batteries of checks that every source, sink, step and model must pass, those of Millstream and those of others.

In a plug-in's tests:

    from millstream.plugin.checks import check_model, check_sink, check_source, check_step

    def test_my_source(tmp_path):
        check_source(MySource(path="texts.csv"), tmp_path)

A check that fails reports its name, the first difference and the remedy. `skip` names the checks to leave out.
"""

from millstream.plugin.checks.sinks import SINK_CHECKS, check_sink
from millstream.plugin.checks.sources import SOURCE_CHECKS, check_source
from millstream.steps.checks import MODEL_CHECKS, STEP_CHECKS, check_join, check_model, check_step

__all__ = [
    "MODEL_CHECKS",
    "SINK_CHECKS",
    "SOURCE_CHECKS",
    "STEP_CHECKS",
    "check_join",
    "check_model",
    "check_sink",
    "check_source",
    "check_step",
]
