-- What was told to people and to followers, held against itself and against the catalog: the ledger of restatements, the notices
-- of commits and the positions of those who follow them. What a value was before it was restated is stored nowhere else: an old
-- value is proven only where the entry before it has the same end, a new one where no later commit touched it.

create function disarray.audit_restatements(p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
begin
    return query
    with entry as (
        select
            noted.*,
            telemetry.number_of(noted.new_float, noted.new_int) - telemetry.number_of(noted.old_float, noted.old_int) as last_change,
            telemetry.number_of(noted.first_new_float, noted.first_new_int)
            - telemetry.number_of(noted.first_old_float, noted.first_old_int) as first_change,
            coalesce(noted.delta_int, telemetry.number_of(noted.delta_float, null)) as delta,
            coalesce(noted.least_int, telemetry.number_of(noted.least_float, null)) as least_change,
            coalesce(noted.greatest_int, telemetry.number_of(noted.greatest_float, null)) as greatest_change,
            -- Bounds are rounded to floats, and the delta of floats holds up to the rounding of their sums.
            case
                when noted.least_float is null and noted.greatest_float is null and noted.delta_float is null then 0
                else 1e-8 * (
                    abs(telemetry.number_of(noted.new_float, noted.new_int)) + abs(telemetry.number_of(noted.old_float, noted.old_int))
                    + coalesce(abs(telemetry.number_of(noted.first_new_float, noted.first_new_int)), 0)
                    + coalesce(abs(telemetry.number_of(noted.first_old_float, noted.first_old_int)), 0)
                )
            end as rounding
        from restatement as noted
        -- Those of before there were spans have one end only.
        where noted.changed_to is not null
    )

    select
        'restatements_add_up',
        format('%s/%s %s', entry.dataset, entry.subject_key, entry.changed_from),
        format(
            '%s%s: changed by %s and by %s at its ends, noted are delta %s, least %s, greatest %s',
            entry.metric, case when entry.channel <> '' then ' of ' || entry.channel else '' end,
            entry.first_change, entry.last_change, entry.delta, entry.least_change, entry.greatest_change
        )
    from entry
    where
        entry.changed_from > entry.changed_to
        or entry.least_change > entry.greatest_change
        or entry.delta <> case when entry.delta_int is null then telemetry.float_of(entry.last_change)::text::numeric else entry.last_change end
        or abs(entry.first_change - entry.delta) > entry.rounding
        or (entry.delta_int is not null and (entry.least_change, entry.greatest_change) is distinct from (entry.delta, entry.delta))
        or (entry.delta is not null and entry.greatest_change - entry.least_change > entry.rounding)
        or entry.delta not between entry.least_change - entry.rounding and entry.greatest_change + entry.rounding
        or entry.first_change not between entry.least_change - entry.rounding and entry.greatest_change + entry.rounding
        or entry.last_change not between entry.least_change - entry.rounding and entry.greatest_change + entry.rounding
    order by entry.restatement_id
    limit p_limit;

    return query
    select
        'restatements_come_from_a_commit',
        format('%s/%s %s', noted.dataset, noted.subject_key, noted.changed_from),
        format('%s, noted for run %s: %s', noted.metric, noted.run_id, wrong.what)
    from restatement as noted
    left join run
        on
            noted.run_id = run.run_id
            and noted.subject_key = run.subject_key
    left join subject_commit as notice
        on
            noted.subject_key = notice.subject_key
            and noted.run_id = notice.run_id
            and noted.dataset = notice.dataset
    cross join lateral (
        select concat_ws(
            ', ',
            case when run.run_id is null then 'it never committed' end,
            case
                when not exists (
                    select
                    from metric as defined
                    where
                        defined.dataset = noted.dataset
                        and defined.metric = noted.metric
                        -- An old value has the type of the definition of then.
                        and (noted.is_redefined or defined.is_integer = (noted.old_int is not null))
                ) then 'there is no such metric of such numbers'
            end,
            case when notice.changed_from > noted.changed_from then 'it said that nothing changed before ' || notice.changed_from end,
            case when notice.changed_to <= noted.changed_to then 'it said that nothing changed from ' || notice.changed_to || ' on' end,
            case when notice.is_redefined <> noted.is_redefined then 'one of them speaks of another definition' end,
            (
                select 'nothing is known of ' || uri.name
                from unnest(noted.source_uris) as uri (name)
                where not exists (select from file_info as file where file.source_uri = uri.name)
                limit 1
            )
        ) as what
    ) as wrong
    where wrong.what <> ''
    order by noted.restatement_id
    limit p_limit;

    return query
    with placed as (
        select
            noted.*,
            notice.commit_seq
        from restatement as noted
        inner join subject_commit as notice
            on
                noted.subject_key = notice.subject_key
                and noted.run_id = notice.run_id
                and noted.dataset = notice.dataset
        where noted.changed_to is not null
    ),

    followed as (
        select
            placed.*,
            lag(placed.commit_seq) over in_turn as former_seq,
            lag(placed.new_float) over in_turn as former_float,
            lag(placed.new_int) over in_turn as former_int
        from placed
        window in_turn as (
            partition by placed.dataset, placed.subject_key, placed.metric, placed.channel, placed.changed_to
            order by placed.commit_seq
        )
    )

    select
        'restatements_follow_each_other',
        format('%s/%s %s', later.dataset, later.subject_key, later.changed_to),
        format(
            '%s: commit %s left %s, commit %s found %s', later.metric, later.former_seq,
            coalesce(later.former_int::text, later.former_float::text, 'no value'), later.commit_seq,
            coalesce(later.old_int::text, later.old_float::text, 'no value')
        )
    from followed as later
    where
        (later.former_float, later.former_int) is distinct from (later.old_float, later.old_int)
        -- So that each is looked at once and the commits between are few.
        and later.commit_seq - later.former_seq <= 100
        and not later.is_redefined
        -- Of a commit between the two that may have changed the value, nothing is provable.
        and not exists (
            select
            from subject_commit as between_them
            where
                between_them.subject_key = later.subject_key
                and between_them.dataset = later.dataset
                and between_them.commit_seq > later.former_seq
                and between_them.commit_seq < later.commit_seq
                and between_them.changed_from <= later.changed_to
        )
    order by later.restatement_id
    limit p_limit;
end
$$;
comment on function disarray.audit_restatements(integer) is
    'Explainable: entries of the ledger that do not add up, that no commit stands behind, or that contradict the entry before them.';

create function disarray.list_settled_restatements(p_subject_key text)
returns table (
    dataset text,
    metric text,
    channel text,
    at_us bigint,
    is_first boolean,
    new_float float8,
    new_int bigint
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
with notice as (
    select
        every.dataset,
        every.run_id,
        -- What a later commit may have changed, and need not have listed, begins here.
        coalesce(
            min(every.changed_from) over (
                partition by every.dataset
                order by every.commit_seq desc
                rows between unbounded preceding and 1 preceding
            ),
            'infinity'
        ) as untouched_before
    from subject_commit as every
    where every.subject_key = p_subject_key
)

select
    noted.dataset,
    noted.metric,
    noted.channel,
    microseconds_of(ends.at),
    ends.is_first,
    ends.new_float,
    ends.new_int
from restatement as noted
inner join notice
    on
        noted.run_id = notice.run_id
        and noted.dataset = notice.dataset
inner join subject_version as made
    on
        made.subject_key = p_subject_key
        and noted.dataset = made.dataset
-- A metric that went with a definition has no value to compare with.
inner join metric as defined
    on
        made.dataset = defined.dataset
        and made.scan_version = defined.scan_version
        and noted.metric = defined.metric
cross join lateral (
    values
    (noted.changed_from, true, noted.first_new_float, noted.first_new_int),
    (noted.changed_to, false, noted.new_float, noted.new_int)
) as ends (at, is_first, new_float, new_int)
where
    noted.subject_key = p_subject_key
    and noted.changed_to is not null
    and ends.at < notice.untouched_before
    -- Where bounds are not known, the new value is the newest and not that of an instant.
    and coalesce(noted.least_float, noted.least_int::float8) is not null
    and coalesce(ends.new_float, ends.new_int::float8) is not null
order by
    noted.dataset,
    4,
    noted.metric,
    noted.channel
$$;
comment on function disarray.list_settled_restatements(text) is
    'Ends of restated spans of a subject that no later commit touched: the value there must be the one that was noted. Of commits whose '
    'notices are still kept.';

create function disarray.audit_notices(p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_kept_since constant timestamptz := clock() - interval '1 day';
begin
    return query
    select
        'commits_say_what_they_changed',
        format('%s/%s', notice.dataset, notice.subject_key),
        format('commit %s: %s', notice.commit_seq, wrong.what)
    from subject_commit as notice
    cross join lateral (
        select concat_ws(
            ', ',
            case
                when notice.is_redefined <> (notice.changed_from = '-infinity')
                    or (notice.is_redefined and notice.changed_segments is not null)
                    then 'it says half of a new definition'
            end,
            case when (notice.changed_segments is null) <> (notice.changed_buckets is null) then 'it names only segments or only buckets' end,
            case
                when exists (
                    select
                    from (
                        select
                            named.us,
                            lag(named.us) over (order by named.place) as former_us
                        from unnest(notice.changed_segments) with ordinality as named (us, place)
                    ) as listed
                    where listed.us <= listed.former_us
                ) then 'its segments are not in the order of time'
            end,
            case
                when instant_of(notice.changed_segments[1]) < notice.changed_from
                    or instant_of(notice.changed_segments[cardinality(notice.changed_segments)]) >= notice.changed_to
                    then 'its segments lie outside of what it changed'
            end,
            case
                when notice.changed_to <> 'infinity' and exists (
                    select
                    from segment_metric as summary
                    where
                        summary.dataset = notice.dataset
                        and summary.subject_key = notice.subject_key
                ) and not exists (
                    -- Before it was defined anew it may have had no metrics.
                    select
                    from subject_commit as later
                    where
                        later.dataset = notice.dataset
                        and later.subject_key = notice.subject_key
                        and later.commit_seq > notice.commit_seq
                        and later.is_redefined
                ) then 'values go on after ' || notice.changed_to
            end,
            case when not exists (select from dataset_version as known where known.dataset = notice.dataset) then 'there is no such dataset' end,
            -- Runs are kept for a day at least.
            case
                when notice.run_id is not null and notice.committed_at > v_kept_since and not exists (
                    select
                    from run
                    where
                        run.run_id = notice.run_id
                        and run.subject_key = notice.subject_key
                ) then format('its run %s never committed', notice.run_id)
            end
        ) as what
    ) as wrong
    where wrong.what <> ''
    order by
        2,
        notice.commit_seq
    limit p_limit;

    return query
    -- A segment that was written once was new to the commit that wrote it: all that it holds was news.
    with written as (
        select
            known.dataset,
            known.subject_key,
            known.segment_us,
            notice.commit_seq,
            notice.changed_segments,
            notice.changed_buckets
        from segment as known
        inner join subject_commit as notice
            on
                known.subject_key = notice.subject_key
                and known.run_id = notice.run_id
                and known.dataset = notice.dataset
        where
            known.revision = 1
            and notice.changed_segments is not null
    )

    select
        'commits_name_what_is_new',
        format('%s/%s', written.dataset, written.subject_key),
        format('commit %s does not name the new segment %s', written.commit_seq, instant_of(written.segment_us))
    from written
    where not written.segment_us = any(written.changed_segments)
    union all
    select distinct
        'commits_name_what_is_new',
        format('%s/%s', written.dataset, written.subject_key),
        format('commit %s does not name the bucket %s of %s', written.commit_seq, instant_of(part.bucket_us), part.rollup)
    from written
    inner join rollup as part
        on
            written.dataset = part.dataset
            and written.subject_key = part.subject_key
            and written.segment_us = part.segment_us
    where
        coalesce((written.changed_buckets #>> array[part.rollup, 'from_us'])::bigint > part.bucket_us, true)
        and not coalesce(written.changed_buckets #> array[part.rollup, 'buckets'] @> to_jsonb(part.bucket_us), false)
    order by
        2,
        3
    limit p_limit;

    return query
    select
        'followers_stand_at_a_kept_commit',
        follower.follower,
        format(
            'it stands at commit %s of %s/%s, kept are %s to %s', follower.commit_seq, follower.dataset, follower.subject_key,
            coalesce(kept.first_seq, 0), coalesce(kept.last_seq, 0)
        )
    from commit_follower as follower
    left join lateral (
        select
            min(notice.commit_seq) as first_seq,
            max(notice.commit_seq) as last_seq
        from subject_commit as notice
        where
            notice.subject_key = follower.subject_key
            and notice.dataset = follower.dataset
    ) as kept on true
    where
        follower.commit_seq > coalesce(kept.last_seq, 0)
        or follower.commit_seq + 1 < kept.first_seq
    order by
        follower.follower,
        3
    limit p_limit;
end
$$;
comment on function disarray.audit_notices(integer) is
    'Atomicity: notices of commits that do not say what was committed, and followers that would miss one.';
