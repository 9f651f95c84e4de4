"""Mechanisms: what randomizes a record, and what estimation needs to know of it."""
