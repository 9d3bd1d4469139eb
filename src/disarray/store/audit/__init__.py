"""Rules that hold at any moment, checked against the database and the lake while both are in use.

Reads only; nothing here mends what it finds.
"""
