"""Attributes, their categories, and the values that represent these in data.

``domain`` declares attributes and the numbers that their categories count by, ``bins`` the categories of numbers and
dates, and ``public`` the columns that are not randomized. ``columns`` turns values into codes and back and refuses
undeclared values. ``datasets`` are the records that come with the package.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
