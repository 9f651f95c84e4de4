"""The command line (architecture §5.1): one module per family of commands, imported only when its command runs."""

import os

# Matrices are small, so that BLAS threads would wait for each other longer than they compute, much longer on a busy processor.
# The variable is read when numpy is loaded; a value set by the user is kept.
os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))

from optrr.cli.main import main

__all__ = ["main"]
