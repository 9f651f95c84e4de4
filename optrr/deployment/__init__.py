"""Deployment files: a mechanism as whole numbers, for devices that randomize where the person is.

The format is specified in ``docs/deployment-format.md``; clients in other languages are written from that page.
"""
