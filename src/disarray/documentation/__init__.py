"""Pages of `docs/` that are made from the program itself, by tests and by hand.

Nothing in the product imports this.
"""
