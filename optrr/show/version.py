"""The version of the package, and its name with it, as files and pages say what made them."""

__version__ = "0.1.0"
SOFTWARE = f"optrr {__version__}"
