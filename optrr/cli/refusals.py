"""Options that say nothing of what is asked are refused rather than ignored."""

from __future__ import annotations

import click
from click.core import ParameterSource

from optrr.errors import InvalidInput


def refuse_options(why: str, *names: str) -> None:
    """Refuse those of the running command's options, by the names of its arguments, that the command line gives.

    Raises
    ------
    InvalidInput
        that names the option, followed by ``why``, for one that is given, with its default value too.
    """
    context = click.get_current_context()
    for param in context.command.params:
        if param.name in names and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
            raise InvalidInput(f"{param.opts[-1]} {why}")
