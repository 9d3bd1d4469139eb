"""A worker as a process: its loop, its leases, its consumer thread, how it starts and ends.

Must not know what a pass does with the items that it hands over.
"""
