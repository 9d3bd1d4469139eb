-- What people ask for. Everything here is read-only, and tells from when on an answer is stale.

create function disarray.stale_from(p_dataset text, p_subject_key text)
returns timestamptz
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select min(open.range_start)
from dirty_range as open
where
    open.subject_key = p_subject_key
    and open.resolved_at is null
    and coalesce(open.dataset, p_dataset) = p_dataset
$$;
comment on function disarray.stale_from(text, text) is 'From when on the derived numbers of a subject are stale; NULL where all are final.';

create function disarray.load_bases(p_dataset text, p_subject_key text, p_metric text, p_from_us bigint, p_to_us bigint)
returns setof disarray.segment_metric
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
begin
    return query
    with channels as (
        -- One step of the index per channel: a long history must not make the newest value slow.
        select distinct newest.channel
        from segment_metric as newest
        where
            newest.dataset = p_dataset
            and newest.subject_key = p_subject_key
            and newest.metric = p_metric
    ),

    entered as (
        select before.*
        from channels
        cross join lateral (
            select summary.*
            from segment_metric as summary
            where
                summary.dataset = p_dataset
                and summary.subject_key = p_subject_key
                and summary.metric = p_metric
                and summary.channel = channels.channel
                and summary.segment_us <= p_from_us
            order by
                summary.segment_us desc,
                summary.piece desc
            limit 2
        ) as before
    )

    select entered.*
    from entered
    union
    select summary.*
    from segment_metric as summary
    where
        summary.dataset = p_dataset
        and summary.subject_key = p_subject_key
        and summary.metric = p_metric
        and summary.segment_us > p_from_us
        and summary.segment_us <= p_to_us;
end
$$;
comment on function disarray.load_bases(text, text, text, bigint, bigint) is
    'Summaries and bases of a metric in a span, with those of the segment in which each channel enters it.';

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

create function disarray.list_restatements(p_subject_key text default null, p_limit integer default 100)
returns setof disarray.restatement
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select noted.*
from restatement as noted
where p_subject_key is null or noted.subject_key = p_subject_key
order by
    noted.restated_at desc,
    noted.restatement_id desc
limit p_limit
$$;
comment on function disarray.list_restatements(text, integer) is 'Numbers that were changed after people may have used them, newest first.';
