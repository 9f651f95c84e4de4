"""From a question to a budget that one can defend: what a choice means, what it buys, what it is recorded as."""
