"""One file into fragments: open it safely, find what is new, unpack it, split it among tasks.

Knows paths and bytes; what a line means is left to `parsing`.
"""
