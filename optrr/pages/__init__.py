"""Pages that can be sent, one HTML file each: of designs and allocations, of results that are tables, and what they share."""
