-- Rollup parts are stored as columns: one row for a rollup of a segment, or for some thousand parts of it.
-- breaking: yes

create type disarray.scanned_summary as (
    segment_us bigint,
    channel text,
    metric text,
    piece smallint,
    readings bigint,
    first_reading_us bigint,
    last_reading_us bigint,
    points bigint,
    total_int bigint,
    total_float float8,
    first_us bigint,
    first_int bigint,
    first_float float8,
    first_break text,
    last_us bigint,
    last_int bigint,
    last_float float8,
    last_break text,
    first_reset text,
    last_reset text
);
comment on type disarray.scanned_summary is 'What a scan says of a metric in a segment, as it travels: a row of segment_metric without its base.';

create type disarray.scanned_rollup as (
    rollup text,
    segment_us bigint,
    block integer,
    first_bucket_us bigint,
    last_bucket_end_us bigint,
    channels text[],
    buckets_us bigint[],
    bucket_ends_us bigint[],
    labels text[],
    aggregates text[],
    points bigint[],
    values_float float8[],
    values_int bigint[],
    ats_us bigint[],
    pivots float8[],
    offset_sums float8[],
    offset_square_sums float8[]
);
comment on type disarray.scanned_rollup is 'What a scan says of a rollup in a segment, as it travels: a row of rollup_block.';

create table disarray.rollup_block (
    dataset text not null,
    subject_key text not null,
    rollup text not null,
    segment_us bigint not null,
    block integer not null,
    first_bucket_us bigint not null,
    last_bucket_end_us bigint not null,
    channels text[] not null,
    buckets_us bigint[] not null,
    bucket_ends_us bigint[] not null,
    labels text[] not null,
    aggregates text[] not null,
    points bigint[] not null,
    values_float float8[],
    values_int bigint[],
    ats_us bigint[],
    pivots float8[],
    offset_sums float8[],
    offset_square_sums float8[],
    constraint rollup_block_pkey primary key (dataset, subject_key, segment_us, rollup, block),
    constraint each_bucket_of_a_channel_has_an_end_and_a_label check (
        cardinality(channels) > 0
        and cardinality(buckets_us) = cardinality(channels)
        and cardinality(bucket_ends_us) = cardinality(channels)
        and cardinality(labels) = cardinality(channels)
    ),
    constraint each_aggregate_has_a_part_for_each_bucket check (
        cardinality(aggregates) > 0
        and cardinality(points) = cardinality(aggregates) * cardinality(channels)
        -- NULL as a whole passes: no part has any.
        and cardinality(values_float) = cardinality(points)
        and cardinality(values_int) = cardinality(points)
        and cardinality(ats_us) = cardinality(points)
        and cardinality(pivots) = cardinality(points)
        and cardinality(offset_sums) = cardinality(points)
        and cardinality(offset_square_sums) = cardinality(points)
    )
);
create index rollup_block_in_time
on disarray.rollup_block (dataset, subject_key, rollup, last_bucket_end_us, first_bucket_us, segment_us);
comment on table disarray.rollup_block is
    'What a segment contributes to the buckets of a rollup. The view rollup has a row for each part.';
comment on column disarray.rollup_block.block is 'Counts the blocks of a segment and rollup from 0 on, by channel and bucket.';
comment on column disarray.rollup_block.first_bucket_us is 'The earliest start of its buckets; with last_bucket_end_us it tells whether a span needs the block.';
comment on column disarray.rollup_block.channels is 'By channel and bucket, an element for each bucket with readings; so are buckets_us, bucket_ends_us and labels.';
comment on column disarray.rollup_block.points is
    'Aggregate after aggregate, in each an element for each of channels; so is all that follows, NULL as a whole where no part has any.';

-- Every aggregate of a rollup has a part for each bucket of each channel with readings. Blocks are cut as scans cut them.
insert into disarray.rollup_block
select
    packed.dataset,
    packed.subject_key,
    packed.rollup,
    packed.segment_us,
    packed.block,
    packed.first_bucket_us,
    packed.last_bucket_end_us,
    packed.channels,
    packed.buckets_us,
    packed.bucket_ends_us,
    packed.labels,
    packed.aggregates,
    packed.points,
    case when packed.has_float then packed.values_float end,
    case when packed.has_int then packed.values_int end,
    case when packed.has_at then packed.ats_us end,
    case when packed.has_pivot then packed.pivots end,
    case when packed.has_pivot then packed.offset_sums end,
    case when packed.has_pivot then packed.offset_square_sums end
from (
    select
        part.dataset,
        part.subject_key,
        part.rollup,
        part.segment_us,
        part.block,
        min(part.bucket_us) as first_bucket_us,
        max(part.bucket_end_us) as last_bucket_end_us,
        array_agg(part.channel order by part.place) filter (where part.aggregate_place = 1) as channels,
        array_agg(part.bucket_us order by part.place) filter (where part.aggregate_place = 1) as buckets_us,
        array_agg(part.bucket_end_us order by part.place) filter (where part.aggregate_place = 1) as bucket_ends_us,
        array_agg(part.label order by part.place) filter (where part.aggregate_place = 1) as labels,
        array_agg(part.aggregate order by part.aggregate_place) filter (where part.place = part.first_place) as aggregates,
        array_agg(part.points order by part.aggregate_place, part.place) as points,
        array_agg(part.value_float order by part.aggregate_place, part.place) as values_float,
        array_agg(part.value_int order by part.aggregate_place, part.place) as values_int,
        array_agg(part.at_us order by part.aggregate_place, part.place) as ats_us,
        array_agg(part.pivot order by part.aggregate_place, part.place) as pivots,
        array_agg(part.offset_sum order by part.aggregate_place, part.place) as offset_sums,
        array_agg(part.offset_square_sum order by part.aggregate_place, part.place) as offset_square_sums,
        bool_or(part.value_float is not null) as has_float,
        bool_or(part.value_int is not null) as has_int,
        bool_or(part.at_us is not null) as has_at,
        bool_or(part.pivot is not null) as has_pivot
    from (
        select
            numbered.*,
            ((numbered.place - 1) / numbered.block_places)::integer as block,
            (numbered.place - 1) / numbered.block_places * numbered.block_places + 1 as first_place
        from (
            select
                placed.*,
                greatest(1, 16384 / placed.aggregates_of_bucket) as block_places
            from (
                select
                    stored.*,
                    dense_rank() over (
                        partition by stored.dataset, stored.subject_key, stored.rollup, stored.segment_us
                        order by stored.channel collate "C", stored.bucket_us
                    ) as place,
                    row_number() over (
                        partition by stored.dataset, stored.subject_key, stored.rollup, stored.segment_us, stored.channel, stored.bucket_us
                        order by stored.aggregate collate "C"
                    ) as aggregate_place,
                    count(*) over (
                        partition by stored.dataset, stored.subject_key, stored.rollup, stored.segment_us, stored.channel, stored.bucket_us
                    ) as aggregates_of_bucket
                from disarray.rollup as stored
            ) as placed
        ) as numbered
    ) as part
    group by
        part.dataset,
        part.subject_key,
        part.rollup,
        part.segment_us,
        part.block
) as packed;

-- They return rows of the table, and are created anew with those of this program.
-- squawk-ignore ban-drop-function
drop function if exists disarray.load_rollup(text, text, text, bigint, bigint);
-- squawk-ignore ban-drop-function
drop function if exists disarray.load_subject_rollup_parts(text);
-- squawk-ignore ban-drop-table
drop table disarray.rollup;

create view disarray.rollup as
select
    block.dataset,
    block.subject_key,
    block.rollup,
    aggregate.name as aggregate,
    part.channel,
    part.bucket_us,
    block.segment_us,
    part.bucket_end_us,
    part.label,
    part.points,
    part.value_float,
    part.value_int,
    part.at_us,
    part.pivot,
    part.offset_sum,
    part.offset_square_sum
from disarray.rollup_block as block
cross join lateral (
    -- Kept apart from what it is used in: worked out once for each block.
    select cardinality(block.channels) as places
    offset 0
) as size
cross join lateral unnest(block.aggregates) with ordinality as aggregate (name, place)
cross join lateral unnest(
    block.channels,
    block.buckets_us,
    block.bucket_ends_us,
    block.labels,
    block.points[(aggregate.place::integer - 1) * size.places + 1:aggregate.place::integer * size.places],
    block.values_float[(aggregate.place::integer - 1) * size.places + 1:aggregate.place::integer * size.places],
    block.values_int[(aggregate.place::integer - 1) * size.places + 1:aggregate.place::integer * size.places],
    block.ats_us[(aggregate.place::integer - 1) * size.places + 1:aggregate.place::integer * size.places],
    block.pivots[(aggregate.place::integer - 1) * size.places + 1:aggregate.place::integer * size.places],
    block.offset_sums[(aggregate.place::integer - 1) * size.places + 1:aggregate.place::integer * size.places],
    block.offset_square_sums[(aggregate.place::integer - 1) * size.places + 1:aggregate.place::integer * size.places]
) as part (
    channel, bucket_us, bucket_end_us, label, points, value_float, value_int, at_us, pivot, offset_sum, offset_square_sum
);
comment on view disarray.rollup is
    'What a segment contributes to a bucket, a row for each channel and aggregate. A bucket that crosses segments is put together at read, in the order of time.';
comment on column disarray.rollup.value_float is 'Sum (also for avg), min, max, first or last; at_us says when, for the last two.';
comment on column disarray.rollup.pivot is 'For stddev: the first value of the part; the sums are of (x - pivot) and of its square.';

-- Each summary is stored without a base, and a shift of the same transaction adds it: with room for the second version on
-- the same page no index is touched again.
alter table disarray.segment_metric set (fillfactor = 45);
