"""Designs on devices: ``deployment`` writes and checks the files by which clients randomize, ``auditing`` tries a client."""

from optrr.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "optrr.devices.auditing.audit": ("AuditOptions",),
        "optrr.devices.auditing.result": ("Audit",),
        "optrr.devices.deployment.export": ("Fitted",),
    },
)
