"""Other ways of asking than one whole record once: ``protocols`` of several messages, and ``longitudinal`` rounds."""
