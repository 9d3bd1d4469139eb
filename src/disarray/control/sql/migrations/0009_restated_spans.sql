-- The ledger of restatements: spans of published values instead of totals.
-- breaking: yes

create type disarray.restated_span as (
    metric text,
    channel text,
    from_us bigint,
    to_us bigint,
    old_first numeric,
    new_first numeric,
    old_last numeric,
    new_last numeric,
    least numeric,
    greatest numeric,
    is_changed boolean
);
comment on type disarray.restated_span is
    'Published values of a metric and channel from one reading to another, before and after a change: at both ends, and the bounds of '
    'their difference. Numbers are numeric here whatever the type of the metric: the shortest text of a float is exact.';

alter table disarray.restatement
add column changed_to timestamptz,
add column first_old_float float8,
add column first_old_int bigint,
add column first_new_float float8,
add column first_new_int bigint,
add column delta_float float8,
add column delta_int numeric,
add column least_float float8,
add column least_int numeric,
add column greatest_float float8,
add column greatest_int numeric;
comment on table disarray.restatement is
    'Published values that a commit changed after people may have used them: from which reading to which, by how much, because of which files.';
comment on column disarray.restatement.changed_from is 'The first reading, old or new, at which the value is another one now.';
comment on column disarray.restatement.changed_to is
    'The last such reading; a value holds up to the next reading. Never beyond the newest that there was. NULL: written down before spans were, as the newest total.';
comment on column disarray.restatement.old_float is 'At changed_to, before the commit.';
comment on column disarray.restatement.new_float is 'At changed_to, after the commit. Neither this nor new_int: there is no value any more.';
comment on column disarray.restatement.first_old_float is 'At changed_from.';
comment on column disarray.restatement.delta_float is
    'What was added to every value of the span, of a float up to the rounding of its sums. NULL where that differs within the span.';
comment on column disarray.restatement.delta_int is 'Exact: two bigint may differ by more than bigint holds.';
comment on column disarray.restatement.least_float is 'No value of the span changed by less; NULL where that is not known.';
comment on column disarray.restatement.greatest_float is 'No value of the span changed by more; NULL where that is not known.';
comment on column disarray.dirty_range.restates is
    'For a change of old numbers: run_id, source_uris, and what published values were made of, to be held against what they are after the shift.';
