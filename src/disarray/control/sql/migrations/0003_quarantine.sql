-- Decisions about parked readings, and when each series was last read in a segment.
-- breaking: no

alter type disarray.ingest_event_event_type add value 'quarantine_released' after 'allowed';
alter type disarray.ingest_event_event_type add value 'quarantine_rejected' after 'quarantine_released';

create index fragment_in_quarantine
on disarray.fragment (source_uri)
where state = 'parked';

alter table disarray.segment_metric
add column first_reading_us bigint,
add column last_reading_us bigint;
comment on column disarray.segment_metric.first_reading_us is 'The first reading of the piece, a point or not; NULL where it was scanned before this was kept.';
comment on column disarray.segment_metric.last_reading_us is 'The last reading of the piece: from here to the next segment of the channel its value holds.';
