"""What a person declares: datasets and formats, read from TOML with every mistake collected.

Values here are frozen and resolved. How a file is parsed or a metric is computed is not known here.
"""
