"""The only door to PostgreSQL: one Python function per SQL function, under the same name.

Must not know files, Spark or what a reading means; SQL lives in `sql/`, one file per noun.
"""
