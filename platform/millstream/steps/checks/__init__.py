"""The battery of checks that every step and model must pass, those of Millstream and those of plug-ins.

In a plug-in's tests:

    from millstream.plugin.checks import check_model, check_step

    def test_my_step():
        check_step(MyStep(), records)

`records` is a table with `_rank, _offset, _time` and the columns that the step reads; its few dozen rows should cover
the behaviour of the step. A check that fails reports its name and the first difference. `skip` names the checks to
leave out.
"""

from millstream.steps.checks.joins import check_join
from millstream.steps.checks.models import MODEL_CHECKS, check_model
from millstream.steps.checks.other_process import same_in_another_process
from millstream.steps.checks.steps import STEP_CHECKS, check_step

__all__ = ["MODEL_CHECKS", "STEP_CHECKS", "check_join", "check_model", "check_step", "same_in_another_process"]
