"""Lines into typed readings: framing, decoding, cells, numbers, stamps, and the reason of every rejected line.

Knows bytes and text, not where they came from.
"""
