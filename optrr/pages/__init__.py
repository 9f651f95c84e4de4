"""Pages that can be sent: one HTML file each."""
