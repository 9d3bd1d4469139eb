"""The small language of `input` and `where`: parser, types and one tree.

Its other rendering, to NumPy and Arrow, is `kernels.scanning.expressions`: both must give the same bits.
"""
