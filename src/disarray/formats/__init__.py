"""Instrument descriptions (TOML), their loader, and the guesses of `disarray formats try`.

A format is described, not coded: how it is parsed is the kernels' business.
"""
