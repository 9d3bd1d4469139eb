-- A definition that is put in force is an event with a who, as every other decision.
-- breaking: no

alter type disarray.ingest_event_event_type add value if not exists 'dataset_defined' after 'quarantine_rejected';
