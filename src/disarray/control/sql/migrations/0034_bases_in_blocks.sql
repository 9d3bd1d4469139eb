-- Bases in blocks: a late file moves the bases of its block and those of the blocks behind it, no longer every base to its right.
-- breaking: yes

-- squawk-ignore renaming-table
alter table disarray.segment_metric rename to segment_summary;
-- squawk-ignore renaming-object
alter table disarray.segment_summary rename constraint segment_metric_pkey to segment_summary_pkey;
-- squawk-ignore renaming-object
alter index disarray.segment_metric_in_time rename to segment_summary_in_time;

alter table disarray.subject_version add column block_length_us bigint;
comment on column disarray.subject_version.block_length_us is 'How long its blocks of segments are; NULL until a segment was scanned.';
alter table disarray.segment_summary add column block_us bigint;
alter table disarray.segment_summary add column is_carried boolean;
alter table disarray.dirty_range add column changed_segments bigint[];
comment on column disarray.dirty_range.changed_segments is
    'The segments whose summaries a commit changed: the blocks without any keep what they hold. NULL: all from the beginning of the range on.';

comment on table disarray.segment_summary is
    'Summary of a metric in a segment, and its base within a block of segments, as if the history of the subject began with the block. '
    'Piece 0: up to the first reset, or all; piece 1: from the last reset on. The view segment_metric adds the base of the block.';
comment on column disarray.segment_summary.block_us is 'Where the block of the segment begins.';
comment on column disarray.segment_summary.is_carried is
    'Whether the value from before the block reaches the piece: no reset lies between. NULL until its base is known.';
comment on column disarray.segment_summary.base_float is
    'What the fold within the piece is added to, within the block: the value before it, and the step from the point before it.';
comment on column disarray.segment_summary.before_float is 'The value just before the first reading, within the block.';
comment on column disarray.segment_summary.prior_us is
    'The point of the block before this piece that its first point continues from; NULL where it starts anew, or is the first of the block.';

create table disarray.metric_block (
    dataset text not null,
    subject_key text not null,
    metric text not null,
    channel text not null,
    block_us bigint not null,
    kind text not null,
    first_us bigint,
    first_float float8,
    first_int bigint,
    first_break text,
    first_reset text,
    restarts boolean not null,
    offset_float float8,
    offset_int bigint,
    total_float float8,
    total_int bigint,
    last_us bigint,
    last_float float8,
    last_int bigint,
    last_break text,
    last_reset text,
    head_segment_us bigint,
    base_float float8,
    base_int bigint,
    before_float float8,
    before_int bigint,
    prior_us bigint,
    prior_float float8,
    prior_int bigint,
    prior_break text,
    constraint metric_block_pkey primary key (dataset, subject_key, metric, channel, block_us)
) with (fillfactor = 70);
comment on table disarray.metric_block is
    'The pieces of a metric in a block of segments, as one: what the next block continues from, and the base that all pieces up to '
    'the first reset in the block have in common.';
comment on column disarray.metric_block.kind is 'The kind of the metric under the definition that its numbers were made under: how a base is joined.';
comment on column disarray.metric_block.first_us is 'The first point of the block, if no reset lies before it.';
comment on column disarray.metric_block.restarts is 'Whether a reset lies in the block: what follows it continues from the reset, not from the base of the block.';
comment on column disarray.metric_block.offset_float is 'The base of the last piece within the block.';
comment on column disarray.metric_block.total_float is 'The fold of the last piece.';
comment on column disarray.metric_block.last_us is 'The last point of the block, if no reset lies behind it.';
comment on column disarray.metric_block.head_segment_us is
    'The segment of the last piece that the base reaches and of which something can be read; NULL where there is none.';
comment on column disarray.metric_block.base_float is 'The value before the block, and the step from the point before it to its first one.';
comment on column disarray.metric_block.before_float is 'The value just before the block: what readings before its first point show.';
comment on column disarray.metric_block.prior_us is 'The point before the block that its first point continues from; NULL where it starts anew.';
-- With all columns of the key: whichever of both a plan without statistics takes for one block, it reads one entry.
create index metric_block_in_time
on disarray.metric_block (dataset, subject_key, block_us, metric, channel);

-- What blocks are made of lies in the functions, which come after the migrations: make_blocks does it, compares with this and drops it.
create table disarray.former_base as
select
    summary.dataset,
    summary.subject_key,
    summary.metric,
    summary.channel,
    summary.segment_us,
    summary.piece,
    summary.base_float,
    summary.base_int,
    summary.before_float,
    summary.before_int,
    summary.prior_us
from disarray.segment_summary as summary;

update disarray.subject_version as made
set block_length_us = 128 * (
    select max(known.segment_end_us - known.segment_us)
    from disarray.segment as known
    where
        known.dataset = made.dataset
        and known.subject_key = made.subject_key
);
update disarray.segment_summary as summary
set block_us = summary.segment_us - (
    (summary.segment_us % made.block_length_us) + made.block_length_us
) % made.block_length_us
from disarray.subject_version as made
where
    summary.dataset = made.dataset
    and summary.subject_key = made.subject_key;
-- squawk-ignore adding-not-nullable-field
alter table disarray.segment_summary alter column block_us set not null;

create type disarray.carried_piece as (
    kind text,
    method text,
    max_gap_us bigint,
    is_integer boolean,
    piece smallint,
    restarts boolean,
    offset_float float8,
    offset_int bigint,
    total_float float8,
    total_int bigint,
    first_us bigint,
    first_float float8,
    first_int bigint,
    first_break text,
    first_reset text,
    last_us bigint,
    last_float float8,
    last_int bigint,
    last_break text,
    last_reset text,
    is_seed boolean,
    is_carried boolean,
    base_float float8,
    base_int bigint,
    prior_us bigint,
    prior_float float8,
    prior_int bigint,
    prior_break text
);
comment on type disarray.carried_piece is
    'A piece of a history, or a block of them, as bases are carried over it. offset: what lies between its base and that of its last piece.';
create type disarray.carried_value as (
    base_float float8,
    base_int bigint,
    before_float float8,
    before_int bigint,
    prior_us bigint,
    prior_float float8,
    prior_int bigint,
    prior_break text,
    is_carried boolean,
    end_float float8,
    end_int bigint,
    total_float float8,
    total_int bigint,
    last_us bigint,
    last_float float8,
    last_int bigint,
    last_break text,
    reset text
);
comment on type disarray.carried_value is
    'The base of a piece, and what the next one continues from: the base of its last piece, the fold of that, the last point, the reset in force.';

create view disarray.segment_metric as
select
    summary.dataset,
    summary.subject_key,
    summary.metric,
    summary.channel,
    summary.segment_us,
    summary.piece,
    summary.readings,
    summary.points,
    summary.total_float,
    summary.total_int,
    summary.first_us,
    summary.first_float,
    summary.first_int,
    summary.first_break,
    summary.first_reset,
    summary.last_us,
    summary.last_float,
    summary.last_int,
    summary.last_break,
    summary.last_reset,
    case
        when summary.is_carried is not true then summary.base_float
        when block.kind = 'min' then least(block.base_float, summary.base_float)
        when block.kind = 'max' then greatest(block.base_float, summary.base_float)
        -- Before the first point of the block the step to it is not yet taken.
        when summary.points = 0 and summary.prior_us is null then block.before_float + summary.base_float
        else block.base_float + summary.base_float
    end as base_float,
    case
        when summary.is_carried is not true then summary.base_int
        when block.kind = 'min' then least(block.base_int, summary.base_int)
        when block.kind = 'max' then greatest(block.base_int, summary.base_int)
        when summary.points = 0 and summary.prior_us is null then block.before_int + summary.base_int
        else block.base_int + summary.base_int
    end as base_int,
    case
        when summary.is_carried is not true then summary.before_float
        when block.kind = 'min' then least(block.before_float, summary.before_float)
        when block.kind = 'max' then greatest(block.before_float, summary.before_float)
        when summary.prior_us is null then block.before_float + summary.before_float
        else block.base_float + summary.before_float
    end as before_float,
    case
        when summary.is_carried is not true then summary.before_int
        when block.kind = 'min' then least(block.before_int, summary.before_int)
        when block.kind = 'max' then greatest(block.before_int, summary.before_int)
        when summary.prior_us is null then block.before_int + summary.before_int
        else block.base_int + summary.before_int
    end as before_int,
    case when summary.is_carried and summary.prior_us is null then block.prior_us else summary.prior_us end as prior_us,
    case when summary.is_carried and summary.prior_us is null then block.prior_float else summary.prior_float end as prior_float,
    case when summary.is_carried and summary.prior_us is null then block.prior_int else summary.prior_int end as prior_int,
    case when summary.is_carried and summary.prior_us is null then block.prior_break else summary.prior_break end as prior_break,
    summary.first_reading_us,
    summary.last_reading_us,
    summary.reset_us
from disarray.segment_summary as summary
left join disarray.metric_block as block
    on
        summary.dataset = block.dataset
        and summary.subject_key = block.subject_key
        and summary.metric = block.metric
        and summary.channel = block.channel
        and summary.block_us = block.block_us;
comment on view disarray.segment_metric is
    'Summary and base of a metric in a segment: a value is (base of its block + base within the block) + fold within the piece, with these brackets.';
comment on column disarray.segment_metric.base_float is 'What the fold within the piece is added to: the value before it, and the step from the point before it.';
comment on column disarray.segment_metric.before_float is 'The value just before the first reading: what readings before the first point show.';
comment on column disarray.segment_metric.prior_us is 'The point before this piece that its first point continues from; NULL where it starts anew.';

-- Views over readings named the table, and stay what they are to those who built on them.
do $$
declare
    v_view record;
begin
    for v_view in
        select distinct
            rule.ev_class::regclass as name,
            pg_get_viewdef(rule.ev_class) as definition
        from pg_depend as link
        inner join pg_rewrite as rule on link.objid = rule.oid
        where
            link.refclassid = 'pg_class'::regclass
            and link.refobjid = 'disarray.segment_summary'::regclass
            and link.classid = 'pg_rewrite'::regclass
            and rule.ev_class <> 'disarray.segment_metric'::regclass
    loop
        execute format(
            'create or replace view %s as %s', v_view.name, replace(v_view.definition, 'disarray.segment_summary ', 'disarray.segment_metric ')
        );
    end loop;
end
$$;

-- Rollup parts of a segment in which every channel has the same buckets name each of both once, and points once where all
-- aggregates have the same. Numbers are not compressed: it took two thirds of the time to store them. Blocks that are stored
-- stay as they are until their segment is scanned again.
alter table disarray.rollup_block
-- squawk-ignore prefer-robust-stmts
add column is_grid boolean not null default false;
comment on column disarray.rollup_block.is_grid is
    'Whether each of channels has each of buckets_us, by channel and bucket. Otherwise channels has an element for each bucket of each channel.';
comment on column disarray.rollup_block.channels is
    'By channel and bucket, an element for each bucket with readings; of a grid, each channel once, and buckets_us, bucket_ends_us and labels have each bucket once.';
comment on column disarray.rollup_block.points is
    'Aggregate after aggregate, in each an element for each bucket of each channel; so is all that follows, NULL as a whole where no part has any. '
    'Where all aggregates have the same points, once for all.';
alter type disarray.scanned_rollup add attribute is_grid boolean;
-- Stored blocks keep to the new constraints as they did to those before.
alter table disarray.rollup_block
-- squawk-ignore ban-drop-constraint
drop constraint each_bucket_of_a_channel_has_an_end_and_a_label,
-- squawk-ignore ban-drop-constraint
drop constraint each_aggregate_has_a_part_for_each_bucket,
-- squawk-ignore constraint-missing-not-valid
add constraint each_bucket_of_a_channel_has_an_end_and_a_label check (
    cardinality(channels) > 0
    and cardinality(buckets_us) > 0
    and (is_grid or cardinality(buckets_us) = cardinality(channels))
    and cardinality(bucket_ends_us) = cardinality(buckets_us)
    and cardinality(labels) = cardinality(buckets_us)
),
-- squawk-ignore constraint-missing-not-valid
add constraint each_aggregate_has_a_part_for_each_bucket check (
    cardinality(aggregates) > 0
    and cardinality(points) in (
        cardinality(channels) * (case when is_grid then cardinality(buckets_us) else 1 end),
        cardinality(aggregates) * cardinality(channels) * (case when is_grid then cardinality(buckets_us) else 1 end)
    )
    -- NULL as a whole passes: no part has any.
    and cardinality(values_float) = cardinality(aggregates) * cardinality(channels) * (case when is_grid then cardinality(buckets_us) else 1 end)
    and cardinality(values_int) = cardinality(aggregates) * cardinality(channels) * (case when is_grid then cardinality(buckets_us) else 1 end)
    and cardinality(ats_us) = cardinality(aggregates) * cardinality(channels) * (case when is_grid then cardinality(buckets_us) else 1 end)
    and cardinality(pivots) = cardinality(aggregates) * cardinality(channels) * (case when is_grid then cardinality(buckets_us) else 1 end)
    and cardinality(offset_sums) = cardinality(aggregates) * cardinality(channels) * (case when is_grid then cardinality(buckets_us) else 1 end)
    and cardinality(offset_square_sums) = cardinality(aggregates) * cardinality(channels) * (case when is_grid then cardinality(buckets_us) else 1 end)
);
alter table disarray.rollup_block
alter column values_float set storage external,
alter column values_int set storage external,
alter column pivots set storage external,
alter column offset_sums set storage external,
alter column offset_square_sums set storage external;

create or replace view disarray.rollup as
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
    select
        cardinality(block.channels) as places,
        block.channels,
        block.buckets_us,
        block.bucket_ends_us,
        block.labels
    where not block.is_grid
    union all
    select
        count(*)::integer,
        array_agg(place.channel),
        array_agg(place.bucket_us),
        array_agg(place.bucket_end_us),
        array_agg(place.label)
    from (
        select
            channel.name as channel,
            bucket.bucket_us,
            bucket.bucket_end_us,
            bucket.label
        from unnest(block.channels) with ordinality as channel (name, place)
        cross join unnest(block.buckets_us, block.bucket_ends_us, block.labels)
            with ordinality as bucket (bucket_us, bucket_end_us, label, place)
        where block.is_grid
        order by
            channel.place,
            bucket.place
    ) as place
    having count(*) > 0
    offset 0
) as size
cross join lateral unnest(block.aggregates) with ordinality as aggregate (name, place)
cross join lateral (
    select
        (aggregate.place::integer - 1) * size.places as before,
        -- All aggregates have the same where there are no more than places.
        (aggregate.place::integer - 1) * size.places % cardinality(block.points) as points_before
) as skipped
cross join lateral unnest(
    size.channels,
    size.buckets_us,
    size.bucket_ends_us,
    size.labels,
    block.points[skipped.points_before + 1:skipped.points_before + size.places],
    block.values_float[skipped.before + 1:skipped.before + size.places],
    block.values_int[skipped.before + 1:skipped.before + size.places],
    block.ats_us[skipped.before + 1:skipped.before + size.places],
    block.pivots[skipped.before + 1:skipped.before + size.places],
    block.offset_sums[skipped.before + 1:skipped.before + size.places],
    block.offset_square_sums[skipped.before + 1:skipped.before + size.places]
) as part (
    channel, bucket_us, bucket_end_us, label, points, value_float, value_int, at_us, pivot, offset_sum, offset_square_sum
);
