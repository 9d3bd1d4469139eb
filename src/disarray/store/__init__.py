"""Where readings live: a Parquet lake or tables, behind one contract.

Knows the catalog and the kernels; must not know Spark, commands or HTTP.
"""
