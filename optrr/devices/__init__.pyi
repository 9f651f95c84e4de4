from .export import Fitted as Fitted
from .result import Audit as Audit
