-- What people ask for. Everything here is read-only, and tells from when on an answer is stale.

create function disarray.unresolved_from(p_dataset text, p_subject_key text)
returns timestamptz
language sql
stable
as $$
select min(open.range_start)
from disarray.dirty_range as open
where
    open.subject_key = p_subject_key
    and open.resolved_at is null
    and coalesce(open.dataset, p_dataset) = p_dataset
$$;
comment on function disarray.unresolved_from(text, text) is 'From when on bases of a subject wait for a shift; NULL where none do.';

create function disarray.stale_from(p_dataset text, p_subject_key text)
returns timestamptz
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select least(
    unresolved_from(p_dataset, p_subject_key),
    (
        select min(moving.stale_from)
        from moving_file as moving
        where
            moving.subject_key = p_subject_key
            and moving.dataset = p_dataset
    )
)
$$;
comment on function disarray.stale_from(text, text) is 'From when on the derived numbers of a subject are stale; NULL where all are final.';

create function disarray.load_bases(
    p_dataset text,
    p_subject_key text,
    p_metric text,
    p_from_us bigint,
    p_to_us bigint,
    p_channel text default null
)
returns setof disarray.segment_metric
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
-- A plan that is kept must be good for a long history also when it was made for an empty one. Without sorts it has to
-- be the index that holds each channel's rows in the order of time.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
set enable_incremental_sort = off
as $$
begin
    return query
    -- One step of the index per channel, then one per segment asked for: a long history must not make the newest value slow.
    with recursive channels as (
        (
            select known.channel
            from segment_summary as known
            where
                known.dataset = p_dataset
                and known.subject_key = p_subject_key
                and known.metric = p_metric
                and p_channel is null
            order by known.channel
            limit 1
        )
        union all
        select (
            select known.channel
            from segment_summary as known
            where
                known.dataset = p_dataset
                and known.subject_key = p_subject_key
                and known.metric = p_metric
                and known.channel > former.channel
            order by known.channel
            limit 1
        )
        from channels as former
        where former.channel is not null
    ),

    wanted as (
        select channels.channel
        from channels
        where channels.channel is not null
        union all
        select p_channel
        where p_channel is not null
    )

    -- As the view segment_metric has it. Of a block a plan without statistics would read all of its series, and filter.
    select
        found.dataset,
        found.subject_key,
        found.metric,
        found.channel,
        found.segment_us,
        found.piece,
        found.readings,
        found.points,
        found.total_float,
        found.total_int,
        found.first_us,
        found.first_float,
        found.first_int,
        found.first_break,
        found.first_reset,
        found.last_us,
        found.last_float,
        found.last_int,
        found.last_break,
        found.last_reset,
        telemetry.carried_float(
            block.kind, found.is_carried,
            case when found.points = 0 and found.prior_us is null then block.before_float else block.base_float end, found.base_float
        ),
        telemetry.carried_int(
            block.kind, found.is_carried,
            case when found.points = 0 and found.prior_us is null then block.before_int else block.base_int end, found.base_int
        ),
        telemetry.carried_float(
            block.kind, found.is_carried,
            case when found.prior_us is null then block.before_float else block.base_float end, found.before_float
        ),
        telemetry.carried_int(
            block.kind, found.is_carried,
            case when found.prior_us is null then block.before_int else block.base_int end, found.before_int
        ),
        case when found.is_carried and found.prior_us is null then block.prior_us else found.prior_us end,
        case when found.is_carried and found.prior_us is null then block.prior_float else found.prior_float end,
        case when found.is_carried and found.prior_us is null then block.prior_int else found.prior_int end,
        case when found.is_carried and found.prior_us is null then block.prior_break else found.prior_break end,
        found.first_reading_us,
        found.last_reading_us,
        found.reset_us
    from wanted
    cross join lateral (
        select coalesce(
            (
                select entered.segment_us
                from segment_summary as entered
                where
                    entered.dataset = p_dataset
                    and entered.subject_key = p_subject_key
                    and entered.metric = p_metric
                    and entered.channel = wanted.channel
                    and entered.segment_us <= p_from_us
                    -- In the segment around the start the channel may not have been read yet.
                    and coalesce(entered.first_reading_us, entered.segment_us) <= p_from_us
                order by
                    entered.segment_us desc,
                    entered.piece desc
                limit 1
            ),
            -- The channel was not read before the start: its first segment is wanted also where it began before the start.
            -9223372036854775808
        ) as first_us
    ) as span
    cross join lateral (
        select own.*
        from segment_summary as own
        where
            own.dataset = p_dataset
            and own.subject_key = p_subject_key
            and own.metric = p_metric
            and own.channel = wanted.channel
            and own.segment_us >= span.first_us
            and own.segment_us <= p_to_us
        order by
            own.segment_us,
            own.piece
    ) as found
    left join lateral (
        select own.*
        from metric_block as own
        where
            own.dataset = p_dataset
            and own.subject_key = p_subject_key
            and own.metric = p_metric
            and own.channel = wanted.channel
            and own.block_us = found.block_us
        limit 1
    ) as block on true;
end
$$;
comment on function disarray.load_bases(text, text, text, bigint, bigint, text) is
    'Summaries and bases of a metric in a span, by channel and time, from the segment whose value holds where the span begins.';

create function disarray.load_rollup(
    p_dataset text,
    p_subject_key text,
    p_rollup text,
    p_from_us bigint,
    p_to_us bigint,
    p_channel text default null
)
returns setof disarray.rollup
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
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
from rollup_block as block
cross join lateral (
    -- A channel's buckets lie together: of a thousand channels, the parts of one are cut out before they become rows.
    select
        cardinality(block.channels) as places,
        span.first_place,
        span.last_place,
        block.channels[span.first_place:span.last_place] as channels,
        block.buckets_us[span.first_place:span.last_place] as buckets_us,
        block.bucket_ends_us[span.first_place:span.last_place] as bucket_ends_us,
        block.labels[span.first_place:span.last_place] as labels
    from array_positions(block.channels, p_channel) as own (places)
    cross join lateral (
        select
            case when p_channel is null then 1 else own.places[1] end as first_place,
            case when p_channel is null then cardinality(block.channels) else own.places[cardinality(own.places)] end as last_place
    ) as span
    where not block.is_grid
    union all
    select
        cardinality(block.channels) * cardinality(block.buckets_us),
        min(place.number)::integer,
        max(place.number)::integer,
        array_agg(place.channel),
        array_agg(place.bucket_us),
        array_agg(place.bucket_end_us),
        array_agg(place.label)
    from (
        select
            (channel.place - 1) * cardinality(block.buckets_us) + bucket.place as number,
            channel.name as channel,
            bucket.bucket_us,
            bucket.bucket_end_us,
            bucket.label
        from unnest(block.channels) with ordinality as channel (name, place)
        cross join unnest(block.buckets_us, block.bucket_ends_us, block.labels)
            with ordinality as bucket (bucket_us, bucket_end_us, label, place)
        where
            block.is_grid
            and (p_channel is null or channel.name = p_channel)
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
    block.points[skipped.points_before + size.first_place:skipped.points_before + size.last_place],
    block.values_float[skipped.before + size.first_place:skipped.before + size.last_place],
    block.values_int[skipped.before + size.first_place:skipped.before + size.last_place],
    block.ats_us[skipped.before + size.first_place:skipped.before + size.last_place],
    block.pivots[skipped.before + size.first_place:skipped.before + size.last_place],
    block.offset_sums[skipped.before + size.first_place:skipped.before + size.last_place],
    block.offset_square_sums[skipped.before + size.first_place:skipped.before + size.last_place]
) as part (
    channel, bucket_us, bucket_end_us, label, points, value_float, value_int, at_us, pivot, offset_sum, offset_square_sum
)
where
    block.dataset = p_dataset
    and block.subject_key = p_subject_key
    and block.rollup = p_rollup
    -- Blocks outside the span are not opened.
    and block.first_bucket_us < p_to_us
    and block.last_bucket_end_us > p_from_us
    and part.bucket_us < p_to_us
    and part.bucket_end_us > p_from_us
    and (p_channel is null or part.channel = p_channel)
order by
    part.channel,
    part.bucket_us,
    aggregate.name,
    block.segment_us
$$;
comment on function disarray.load_rollup(text, text, text, bigint, bigint, text) is
    'Parts of the buckets of one channel or of all that overlap a span; those of one bucket are merged in the order of their segments.';

create function disarray.list_restatements(
    p_subject_key text default null,
    p_limit integer default 100,
    p_after text[] default null
)
returns setof disarray.restatement
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select noted.*
from restatement as noted
where
    (p_subject_key is null or noted.subject_key = p_subject_key)
    and (noted.restated_at, noted.restatement_id) < (
        coalesce(p_after[1]::timestamptz, 'infinity'), coalesce(p_after[2]::bigint, 9223372036854775807)
    )
order by
    noted.restated_at desc,
    noted.restatement_id desc
limit p_limit
$$;
comment on function disarray.list_restatements(text, integer, text[]) is 'Spans of published values that were changed after people may have used them, newest first.';

create function disarray.list_subjects(
    p_dataset text default null,
    p_subject_key text default null,
    p_limit integer default 10000,
    p_after text[] default null
)
returns table (
    dataset text,
    subject_key text,
    first_us bigint,
    last_us bigint,
    parse_version text,
    scan_version text,
    is_in_force boolean
)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
set enable_seqscan = off
as $$
begin
    return query
    -- From subject to subject along the index, whatever the length of their histories; of each dataset as many as are asked
    -- for, and one more: the first may be the one that p_after names.
    with recursive datasets as (
        (
            select known.dataset
            from segment as known
            order by known.dataset
            limit 1
        )
        union all
        select following.dataset
        from datasets
        cross join lateral (
            select known.dataset
            from segment as known
            where known.dataset > datasets.dataset
            order by known.dataset
            limit 1
        ) as following
    ),

    subjects as (
        select
            datasets.dataset,
            beginning.subject_key,
            1 as place
        from datasets
        cross join lateral (
            select known.subject_key
            from segment as known
            where
                known.dataset = datasets.dataset
                and known.subject_key >= coalesce(p_subject_key, p_after[1], '')
            order by known.subject_key
            limit 1
        ) as beginning
        where p_dataset is null or datasets.dataset = p_dataset
        union all
        select
            subjects.dataset,
            following.subject_key,
            subjects.place + 1
        from subjects
        cross join lateral (
            select known.subject_key
            from segment as known
            where
                known.dataset = subjects.dataset
                and known.subject_key > subjects.subject_key
            order by known.subject_key
            limit 1
        ) as following
        where
            p_subject_key is null
            and subjects.place <= p_limit
    )

    select
        subjects.dataset,
        subjects.subject_key,
        oldest.first_us,
        newest.last_us,
        made.parse_version,
        made.scan_version,
        defined.superseded_at is null
    from subjects
    left join subject_version as made on subjects.subject_key = made.subject_key and subjects.dataset = made.dataset
    left join dataset_version as defined
        on
            made.dataset = defined.dataset
            and made.parse_version = defined.parse_version
            and made.scan_version = defined.scan_version
    cross join lateral (
        select known.first_us
        from segment as known
        where
            known.dataset = subjects.dataset
            and known.subject_key = subjects.subject_key
        order by known.segment_us
        limit 1
    ) as oldest
    cross join lateral (
        select known.last_us
        from segment as known
        where
            known.dataset = subjects.dataset
            and known.subject_key = subjects.subject_key
        order by known.segment_us desc
        limit 1
    ) as newest
    where
        (p_dataset is null or subjects.dataset = p_dataset)
        and (p_subject_key is null or subjects.subject_key = p_subject_key)
        and (subjects.subject_key, subjects.dataset) > (coalesce(p_after[1], ''), coalesce(p_after[2], ''))
    order by
        subjects.subject_key,
        subjects.dataset
    limit p_limit;
end
$$;
comment on function disarray.list_subjects(text, text, integer, text[]) is 'Subjects that have readings, in which dataset, the span of them, and under which definition their numbers were made.';
