"""Pages of `docs/` that are made from the program itself. Nothing in the product imports this."""
