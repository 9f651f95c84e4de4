"""The command line (architecture §5.1): one module per family of commands, imported only when its command runs."""

import os

# Our matrices are small: threads that share one wait for each other longer than they compute, many times longer where the
# processor is busy. It is read when numpy is loaded; whoever has set it keeps what is set.
os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))

from optrr.cli.main import main

__all__ = ["main"]
