-- Replays: that what one found was taken over is written down.
-- breaking: no

alter type disarray.ingest_event_event_type add value if not exists 'backfill_applied' after 'backfill_rate_changed';
