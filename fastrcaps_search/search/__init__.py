"""The driver: propose, claim, train and tell until the budget is met."""
