"""Records: domains, columns, data frames, files, and counts of them."""
