"""The small language of `input` and `where`: parser, types, one tree, and its rendering as Spark SQL.

Its other rendering, to NumPy and Arrow, is `kernels.scanning.expressions`: both must give the same bits.
"""
