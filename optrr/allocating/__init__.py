"""The reverse of design: from a total ε, or from required accuracies, to designs; and which way of asking is best."""
