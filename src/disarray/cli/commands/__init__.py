"""One module per command: options in, text or JSON out."""
