"""The routes, one module per noun. What they answer is asked of the layers below, not worked out here."""
