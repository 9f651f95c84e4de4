"""Solvers: arrays in, laws and bounds out. Knows nothing of records; imports nothing of the optrr package."""

from optrr_solvers.auto import METHODS, SolveOptions, applicable, solve
from optrr_solvers.certificates.certificate import Certificate, InvalidCertificate, kl_bound, lower_bound
from optrr_solvers.laws import BallLaw, BlockLaw, CountLaw, FewChangesLaw, Law, ProductLaw, TableLaw
from optrr_solvers.problem import Infeasible, InvalidProblem, MethodTooLarge, Problem
from optrr_solvers.solution import Solution, SolveFailed, Status

__all__ = [
    "METHODS",
    "BallLaw",
    "BlockLaw",
    "Certificate",
    "CountLaw",
    "FewChangesLaw",
    "Infeasible",
    "InvalidCertificate",
    "InvalidProblem",
    "Law",
    "MethodTooLarge",
    "Problem",
    "ProductLaw",
    "Solution",
    "SolveFailed",
    "SolveOptions",
    "Status",
    "TableLaw",
    "applicable",
    "kl_bound",
    "lower_bound",
    "solve",
]
