"""Does what is queued: claims, reads, plans, scans, commits."""
