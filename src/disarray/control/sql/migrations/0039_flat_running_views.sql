-- Running views read summaries and blocks, not the view over both: with several metrics they looked up nothing, and sorted the history.
-- breaking: no

-- How they read lies in the functions, which come after the migrations: flatten_running_views puts each in the place of the former one.
comment on view disarray.segment_metric is
    'Summary and base of a metric in a segment: a value is (base of its block + base within the block) + fold within the piece, with these brackets. '
    'Not for one join of many metrics: PostgreSQL would read all of a history for the rest of it.';
