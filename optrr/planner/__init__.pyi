from .plan import Plan as Plan
from .plan_file import read_plan as read_plan
from .plan_file import verify_plan as verify_plan
from .question import Question as Question
