"""A survey whose answers are randomized where they are given: its page, its collector, its results."""
