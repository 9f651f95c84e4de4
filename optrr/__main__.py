"""``python -m optrr``: the command line."""

from optrr.cli.main import main

main()
