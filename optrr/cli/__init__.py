"""The command line (design §5.1): one module per family of commands, imported only when its command runs."""

from optrr.cli.main import main

__all__ = ["main"]
