"""The certified optimum for many different attributes, by mixtures of weighted Hamming balls (design §3.3–3.5)."""
