"""Registry of file formats: for each the functions that read, write, verify and export it.

They are named, and imported on first use, so that the core imports no extension: one entry adds a format.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from optrr.core.provenance.sealed import DEPLOYMENT, DESIGN, LONGITUDINAL, PLAN, SAMPLED_TABLES, SAMPLED_VARIANTS

_TABLES, _VARIANTS = "optrr.allocation.sampled_tables", "optrr.genomics.sampled_variants"
_LONGITUDINAL = "optrr.longitudinal.design"
# By kind of file, functions as "module:name".     load(file, limited), save(made, path), verify(file, limited); a
# deployment's verify(file, design, limited)     recompute(made)             every number of the file's content
# export(made, path, …)       writes the deployment file of a protocol; tabulate: another form of it     exports(made)
# every content that an export of the protocol itself can have     worksheet(made, records)    an evaluator's questions,
# answered     instead                     advice if a file of this kind is given for a design
FORMATS: dict[str, dict[str, str]] = {
    DESIGN: {
        "load": "optrr.core.design.design_file:load_design",
        "save": "optrr.core.design.design_file:save_design",
        "verify": "optrr.core.design.design_file:verify_design",
        "recompute": "optrr.core.design.design_file:recomputed_design",
        "export": "optrr.devices.export:export_design",
        "exports": "optrr.devices.export:exports_of_design",
        "tabulate": "optrr.devices.tables:tabulate",
        "worksheet": "optrr.devices.worksheet:records_worksheet",
        "instead": "design again",
    },
    LONGITUDINAL: {
        "load": f"{_LONGITUDINAL}:load_longitudinal",
        "save": f"{_LONGITUDINAL}:save_longitudinal",
        "verify": f"{_LONGITUDINAL}:verify_longitudinal",
        "instead": "make its reports with `optrr waves randomize` where the records are, or design the same "
        "specification with `optrr design` to ask once",
    },
    SAMPLED_TABLES: {
        "load": f"{_TABLES}:load_sampled_tables",
        "save": f"{_TABLES}:save_sampled_tables",
        "verify": f"{_TABLES}:verify_sampled_tables",
        "export": "optrr.allocation.sampled_uses:export_questions",
        "exports": "optrr.allocation.sampled_uses:exports_of_questions",
        "worksheet": "optrr.allocation.sampled_uses:questions_worksheet",
        "instead": "respondents answer one query each, which randomize, estimate, test, model, export and verify "
        "support; "
        "this needs a design of whole records (protocol optimum of optrr allocate)",
    },
    SAMPLED_VARIANTS: {
        "load": f"{_VARIANTS}:load_sampled_variants",
        "save": f"{_VARIANTS}:save_sampled_variants",
        "verify": f"{_VARIANTS}:verify_sampled_variants",
        "instead": "respondents answer about a few variants each, which gwas randomize, gwas scan and verify support; "
        "this needs a "
        "design of whole records (optrr gwas design)",
    },
    DEPLOYMENT: {
        "load": "optrr.devices.verify:load_deployment",
        "save": "optrr.devices.export:save_exported",
        "verify": "optrr.devices.verify:verify_deployment",
        "instead": "it is a deployment file; give the design that it was exported from",
    },
    PLAN: {
        "load": "optrr.planner.plan:load_plan",
        "verify": "optrr.planner.plan_file:verify_plan",
        "instead": "it is a plan; give design.json of its folder",
    },
}


def function_of(kind: str, operation: str) -> Callable[..., Any] | None:
    """Import a kind's function for an operation; None if it has none.

    An unknown kind is read as a design.
    """
    module, _, name = FORMATS.get(kind, FORMATS[DESIGN]).get(operation, "").partition(":")
    return getattr(import_module(module), name) if module else None


def instead_of_design(written: str) -> str:
    """Advise what to do with a file of this format in place of a design."""
    return FORMATS.get(written.partition("/")[0], FORMATS[DESIGN])["instead"]
