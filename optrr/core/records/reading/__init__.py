"""Reading records from wherever people have them, as Arrow record batches in bounded memory."""
