"""The database of a user, seen from a backfill: the one room beside `control` that composes SQL and needs psycopg.

Tables, columns and expressions are the user's, and no function of ours could name them. Names are quoted. Expressions,
filters and queries are the operator's own SQL: they run as they are written, with the rights of the connection.
"""
