"""Does what is queued: claims, reads, plans, scans, commits.

Must not know the command line or the web, nor PySpark, psycopg or AMQP: it asks `engine`, `control` and `broker`.
"""
