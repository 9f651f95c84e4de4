"""How an answer is seen: text that fits a line, rounded labels, tables, charts, and the promises printed beside them.

``result`` is what every answer can do: be a table, data and text. ``parts`` are the pieces a page is made of, and
``promise`` the sentences of the survey page that every answer repeats.
"""
