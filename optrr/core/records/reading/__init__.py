"""Reading of records from all supported sources, as Arrow record batches in bounded memory."""
