"""Sorted runs of readings as Parquet row groups: written, and read back against their digests.

Knows the canonical order of readings; what they add up to is left to `scanning`.
"""
