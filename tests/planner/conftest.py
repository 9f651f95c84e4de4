"""The question that most tests of plans are about."""

import pytest
from plan_questions import school_question

from optrr.planner.question import Question


@pytest.fixture
def school() -> Question:
    return school_question()
