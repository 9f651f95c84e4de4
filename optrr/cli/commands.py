"""What every command has beside its own options: --strict, and the refusal of an option that is given twice.

Both are added where a command is looked up (:mod:`optrr.cli.main`), so that no command can lack them.
"""

from __future__ import annotations

from typing import Any

import click

from optrr.cli.printing import STRICT
from optrr.records.whole_files import held_back

# It shows what it has written to whoever visits, so its files cannot wait until it ends.
_AT_ONCE = "serve"

_strict = click.Option(
    ["--strict"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=lambda ctx, param, value: ctx.meta.__setitem__(STRICT, value),
    help="Where there would be a warning, write nothing and exit with 1.",
)


class Command(click.Command):
    """A command as it is run: ``plain`` with what every command has."""

    def __init__(self, plain: click.Command) -> None:
        kept = ("name", "callback", "help", "epilog", "short_help", "context_settings", "no_args_is_help", "hidden")
        super().__init__(params=[*plain.params, _strict], **{each: getattr(plain, each) for each in kept})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, where no option is given twice: of two, only the last would count, and nobody would know."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            once = (o for o in order if isinstance(o, click.Option) and not (o.multiple or o.is_flag or o.count))
            for option in once:
                if order.count(option) > 1:
                    raise click.UsageError(
                        f"{option.opts[-1]} is given {order.count(option)} times, and only one can count; give it once"
                    )
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; with --strict its files are moved into place only when it has come to its end without a warning."""
        if not ctx.meta.get(STRICT) or self.name == _AT_ONCE:
            return super().invoke(ctx)
        with held_back():
            return super().invoke(ctx)
