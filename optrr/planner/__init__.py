"""From a question to a budget that one can defend: what a choice means, what it buys, what it is recorded as.

``question`` is what is asked, ``preview`` what a choice buys, ``meaning`` what it means for one person, and ``plan`` the
recorded decision, with its ``statement`` and all that it hands over.
"""

from optrr.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "optrr.planner.plan": ("Plan",),
        "optrr.planner.plan_file": ("checked", "read_plan"),
        "optrr.planner.question": ("Question",),
    },
)
