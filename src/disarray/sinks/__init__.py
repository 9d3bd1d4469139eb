"""What follows a commit: destinations, views, hooks.

Must not know the worker, the web or the command line.
"""
