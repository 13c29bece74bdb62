"""The battery of checks that every step and model passes, those that come with Millstream and anybody's own.

In a plug-in's tests:

    from millstream.steps.checks import check_model, check_step

    def test_my_step():
        check_step(MyStep(), records)

`records` is a table with `_rank, _offset, _time` and the columns that the step reads, a few dozen rows of which
exercise what it does. Each check has a name, told with what differed when it fails, and `skip` leaves it out.
"""

from millstream.steps.checks.models import MODEL_CHECKS, check_model
from millstream.steps.checks.other_process import same_in_another_process
from millstream.steps.checks.steps import STEP_CHECKS, check_step

__all__ = ["MODEL_CHECKS", "STEP_CHECKS", "check_model", "check_step", "same_in_another_process"]
