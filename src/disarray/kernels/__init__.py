"""Plain functions on Arrow tables and NumPy arrays: all arithmetic on readings is here.

No Spark, no database: a kernel runs in one thread of one task and is tested without either.
"""
