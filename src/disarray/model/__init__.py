"""Pure values and rules: segments, fingerprints, the seam, plans.

Standard library only: nothing here knows Arrow, Spark, a database or a file system.
"""
