"""What comes in from elsewhere than files becomes deliveries: Parquet under the landing root, read like any file.

Must not know the worker, Spark, or what becomes of a delivery once it is queued.
"""
