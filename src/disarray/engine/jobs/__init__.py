"""The jobs of a pass: read files, scan segments, compact fragments. Descriptors travel, rows stay in files.

Must not know queues, commits or PostgreSQL: whoever asks for a job commits what comes of it.
"""
