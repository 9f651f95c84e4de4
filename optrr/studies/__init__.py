"""What only the papers and comparisons need, beside the main path."""
