"""Random words that a test chooses, in place of a source of random bits."""

import numpy as np


class Scripted:
    """Hands out given words."""

    def __init__(self, words):
        self.left = list(words)

    def words(self, count):
        out, self.left = self.left[:count], self.left[count:]
        return np.array(out, dtype=np.uint64)
