"""The factory of `make demo`: its reports, the order in which they arrive, and the picture of a late file.

Uses what commands share; must not know the commands, and nothing but the command line knows the demo.
"""
