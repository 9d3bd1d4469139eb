"""Watches folders on a lab PC and announces what is new.

Must not need Spark, NumPy or a database: it is installed where instruments run.
"""
