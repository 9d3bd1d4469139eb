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
            from segment_metric as known
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
            from segment_metric as known
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

    select summary.*
    from wanted
    cross join lateral (
        select coalesce(
            (
                select entered.segment_us
                from segment_metric as entered
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
        select found.*
        from segment_metric as found
        where
            found.dataset = p_dataset
            and found.subject_key = p_subject_key
            and found.metric = p_metric
            and found.channel = wanted.channel
            and found.segment_us >= span.first_us
            and found.segment_us <= p_to_us
        order by
            found.segment_us,
            found.piece
    ) as summary;
end
$$;
comment on function disarray.load_bases(text, text, text, bigint, bigint, text) is
    'Summaries and bases of a metric in a span, by channel and time, from the segment whose value holds where the span begins.';

create function disarray.load_rollup(
    p_dataset text,
    p_subject_key text,
    p_rollup text,
    p_from_us bigint,
    p_to_us bigint
)
returns setof disarray.rollup
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select part.*
from rollup as part
where
    part.dataset = p_dataset
    and part.subject_key = p_subject_key
    and part.rollup = p_rollup
    -- Blocks outside the span are not opened.
    and part.segment_us = any(array(
        select block.segment_us
        from rollup_block as block
        where
            block.dataset = p_dataset
            and block.subject_key = p_subject_key
            and block.rollup = p_rollup
            and block.first_bucket_us < p_to_us
            and block.last_bucket_end_us > p_from_us
    ))
    and part.bucket_us < p_to_us
    and part.bucket_end_us > p_from_us
order by
    part.channel,
    part.bucket_us,
    part.aggregate,
    part.segment_us
$$;
comment on function disarray.load_rollup(text, text, text, bigint, bigint) is
    'Parts of the buckets that overlap a span; those of one bucket are merged in the order of their segments.';

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
    -- From subject to subject along the index, whatever the length of their histories.
    with recursive subjects as (
        (
            select
                known.dataset,
                known.subject_key
            from segment as known
            order by
                known.dataset,
                known.subject_key
            limit 1
        )
        union all
        select
            following.dataset,
            following.subject_key
        from subjects
        cross join lateral (
            select
                known.dataset,
                known.subject_key
            from segment as known
            where (known.dataset, known.subject_key) > (subjects.dataset, subjects.subject_key)
            order by
                known.dataset,
                known.subject_key
            limit 1
        ) as following
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
