"""What changes no number: compaction, retention, sweeping, and forgetting history.

Must not know passes: they hand subjects over once their commits are done.
"""
