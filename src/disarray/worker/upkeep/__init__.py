"""What changes no number: compaction, retention, sweeping, and forgetting history."""
