"""One pass over claimed items: read, plan, scan, and one commit for each subject.

Must not know threads, signals or leases: it reports its steps, and its caller keeps the leases.
"""
