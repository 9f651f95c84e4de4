"""A client tested from outside against its label: what it does to planted records, by exact tests at one stated level."""
