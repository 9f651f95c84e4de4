"""Budgets the other way round: a total ε, or required accuracies, turned into designs; and which way of asking is best."""
