"""What was released and what it cost: what randomized records say of themselves, and the account of a person's ε.

``provenance`` is the statement that goes with randomized records, inside the file or in a sidecar beside it; it refuses records
of another design, and adds up what the same people have spent over releases, and what the steps of one protocol cost.
``sealed`` reads our files: whole, up to a size, with every key once.
"""
