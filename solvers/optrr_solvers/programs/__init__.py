"""Linear programs over change sets: POR's own, and the reduced program (design §3.1, §3.3)."""
