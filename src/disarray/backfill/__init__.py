"""Backfill: long work in chunks, slow enough for the others, resumable and verified.

It knows jobs, chunks, limits and the user's database. It must not know Spark, the queue of files, or who looks at it.
"""
