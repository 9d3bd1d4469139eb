"""What `disarray.open` gives: the answers of `queries` as Arrow, for notebooks and programs in Python.

Knows the queries and Arrow; must not know the worker, Spark, commands or HTTP.
"""
