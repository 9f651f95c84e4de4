from .plan import Plan as Plan
from .plan_file import checked as checked
from .plan_file import read_plan as read_plan
from .question import Question as Question
