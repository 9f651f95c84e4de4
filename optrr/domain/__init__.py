"""What may be answered: attributes and their categories, and the values that stand for them.

``domain`` declares attributes, ``bins`` the categories of numbers and dates, ``scores`` the numbers that categories
count by, and ``public`` the columns that are not randomized. ``columns`` turns values into codes and back and refuses
what is not declared; ``codes`` and ``cells`` number them. ``datasets`` are the records that come with the package.
"""
