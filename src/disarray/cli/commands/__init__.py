"""One module per command: its options, the call that it makes, and how the answer is printed.

What two commands need is in `support`; no command imports another, but for `up --once`, which is a part of `up`.
"""
