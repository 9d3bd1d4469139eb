-- What each commit changed, for those who follow a subject. The number of a commit is given out under the lock row of the
-- subject: a follower that has done number n misses nothing if it goes on with n + 1.

create function disarray.begin_subject_commit(p_run_id uuid, p_subject_key text, p_dataset json, p_segments bigint[], p_is_redefined boolean)
returns void
language plpgsql
-- As in resolve_ranges.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    v_name constant text := p_dataset ->> 'dataset';
    -- More are not named: whoever follows takes all from the first on.
    v_names_segments constant boolean := not p_is_redefined and cardinality(p_segments) <= 1000;
    v_to timestamptz := 'infinity';
begin
    if cardinality(p_segments) = 0 and not p_is_redefined then
        return;
    end if;
    if not exists (
        select
        from disarray.metric as defined
        where
            defined.dataset = v_name
            and defined.scan_version = p_dataset ->> 'scan_version'
    ) and not p_is_redefined then
        select disarray.instant_of(max(scanned.segment_end_us))
        into v_to
        from json_to_recordset(p_dataset -> 'segments') as scanned (segment_us bigint, segment_end_us bigint)
        where scanned.segment_us = any(p_segments);
    end if;
    perform disarray.put_subject_commit(
        p_run_id, p_subject_key, v_name,
        case when p_is_redefined then '-infinity' else disarray.instant_of((select min(changed.us) from unnest(p_segments) as changed (us))) end,
        v_to,
        case when v_names_segments then array(select changed.us from unnest(p_segments) as changed (us) order by changed.us) end,
        -- What the parts of before were, until end_subject_commit holds them against those of after.
        case
            when v_names_segments then jsonb_build_object(
                'segments', disarray.segments_in_rollups(v_name, p_subject_key, p_segments),
                'hashes', disarray.bucket_hashes(v_name, p_subject_key, p_segments)
            )
        end,
        p_is_redefined
    );
end
$$;
comment on function disarray.begin_subject_commit(uuid, text, json, bigint[], boolean) is
    'Note that a commit changes these segments, before it does. Nothing is noted where it changes none.';

create function disarray.end_subject_commit(p_run_id uuid, p_subject_key text, p_dataset text)
returns void
language plpgsql
-- As in resolve_ranges.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    v_noted record;
    v_known bigint[];
begin
    select
        noted.changed_segments,
        noted.changed_buckets
    into v_noted
    from disarray.subject_commit as noted
    where
        noted.subject_key = p_subject_key
        and noted.run_id = p_run_id
        and noted.dataset = p_dataset
        and cardinality(noted.changed_segments) > 0;
    if not found then
        return;
    end if;
    v_known := array(select known.us::bigint from jsonb_array_elements_text(v_noted.changed_buckets -> 'segments') as known (us));
    update disarray.subject_commit as noted
    set changed_buckets = disarray.changed_buckets(
        v_noted.changed_buckets -> 'hashes',
        disarray.bucket_hashes(p_dataset, p_subject_key, v_known),
        -- Where there was no part, every part is news and need not be looked at.
        disarray.bucket_starts(
            p_dataset, p_subject_key,
            array(
                select changed.us
                from unnest(v_noted.changed_segments) as changed (us)
                where not changed.us = any(v_known)
            )
        )
    )
    where
        noted.subject_key = p_subject_key
        and noted.run_id = p_run_id
        and noted.dataset = p_dataset;
end
$$;
comment on function disarray.end_subject_commit(uuid, text, text) is 'Name the buckets that a commit changed, after all of its rollup parts are in.';

create function disarray.note_shift(p_run_id uuid, p_subject_key text, p_dataset text, p_frontier_us bigint)
returns void
language sql
as $$
select disarray.put_subject_commit(p_run_id, p_subject_key, p_dataset, disarray.instant_of(p_frontier_us), 'infinity', '{}', '{}', false)
$$;
comment on function disarray.note_shift(uuid, text, text, bigint) is
    'Note that bases moved: values differ from there on, and neither readings nor rollups do.';

create function disarray.put_subject_commit(
    p_run_id uuid,
    p_subject_key text,
    p_dataset text,
    p_changed_from timestamptz,
    p_changed_to timestamptz,
    p_changed_segments bigint[],
    p_changed_buckets jsonb,
    p_is_redefined boolean
)
returns void
language plpgsql
as $$
begin
    insert into disarray.subject_commit as noted (
        subject_key, dataset, commit_seq, run_id, changed_from, changed_to, changed_segments, changed_buckets, is_redefined, committed_at
    )
    select
        p_subject_key,
        p_dataset,
        coalesce(max(former.commit_seq), 0) + 1,
        p_run_id,
        p_changed_from,
        p_changed_to,
        p_changed_segments,
        p_changed_buckets,
        p_is_redefined,
        disarray.clock()
    from disarray.subject_commit as former
    where
        former.subject_key = p_subject_key
        and former.dataset = p_dataset
    -- A run commits a subject in one transaction: what it does besides, a shift that was put off, belongs to the same commit.
    on conflict (subject_key, run_id, dataset) do update
    set
        changed_from = least(noted.changed_from, excluded.changed_from),
        changed_to = greatest(noted.changed_to, excluded.changed_to),
        changed_segments = case
            when cardinality(excluded.changed_segments) = 0 then noted.changed_segments
            else excluded.changed_segments
        end,
        changed_buckets = case
            when cardinality(excluded.changed_segments) = 0 then noted.changed_buckets
            else excluded.changed_buckets
        end,
        is_redefined = noted.is_redefined or excluded.is_redefined
    -- The shift of a commit seldom adds anything to what the commit said of itself.
    where
        excluded.changed_segments is null
        or cardinality(excluded.changed_segments) > 0
        or noted.changed_from > excluded.changed_from
        or noted.changed_to < excluded.changed_to;
end
$$;
comment on function disarray.put_subject_commit(uuid, text, text, timestamptz, timestamptz, bigint[], jsonb, boolean) is
    'Give the commit of a held subject its number, or add to what is noted of it already.';

create function disarray.bucket_hashes(p_dataset text, p_subject_key text, p_segments bigint[])
returns jsonb
language plpgsql
stable
as $$
begin
    return (
        select coalesce(jsonb_object_agg(named.rollup, named.hashes), '{}')
        from (
            select
                bucket.rollup,
                jsonb_object_agg(bucket.bucket_us, bucket.hash) as hashes
            from (
                select
                    part.rollup,
                    part.bucket_us,
                    -- Parts have no order of their own, and no two of a bucket are the same row.
                    bit_xor(hash_record_extended(part, 0)) as hash
                from disarray.rollup as part
                where
                    part.dataset = p_dataset
                    and part.subject_key = p_subject_key
                    and part.segment_us = any(p_segments)
                group by
                    part.rollup,
                    part.bucket_us
            ) as bucket
            group by bucket.rollup
        ) as named
    );
end
$$;
comment on function disarray.bucket_hashes(text, text, bigint[]) is
    'A hash of what some segments contribute to each bucket of each rollup: the same for the same parts, to the bit.';

create function disarray.segments_in_rollups(p_dataset text, p_subject_key text, p_segments bigint[])
returns jsonb
language sql
stable
as $$
select coalesce(jsonb_agg(distinct block.segment_us), '[]')
from disarray.rollup_block as block
where
    block.dataset = p_dataset
    and block.subject_key = p_subject_key
    and block.segment_us = any(p_segments)
$$;
comment on function disarray.segments_in_rollups(text, text, bigint[]) is 'Those of some segments that contribute to any bucket.';

create function disarray.bucket_starts(p_dataset text, p_subject_key text, p_segments bigint[])
returns jsonb
language sql
stable
as $$
select coalesce(jsonb_object_agg(named.rollup, named.buckets), '{}')
from (
    select
        bucket.rollup,
        jsonb_agg(bucket.us) as buckets
    from (
        select distinct
            block.rollup,
            start.us
        from disarray.rollup_block as block
        cross join lateral unnest(block.buckets_us) as start (us)
        where
            block.dataset = p_dataset
            and block.subject_key = p_subject_key
            and block.segment_us = any(p_segments)
    ) as bucket
    group by bucket.rollup
) as named
$$;
comment on function disarray.bucket_starts(text, text, bigint[]) is 'The buckets that some segments contribute to, by rollup.';

create function disarray.changed_buckets(p_before jsonb, p_after jsonb, p_added jsonb)
returns jsonb
language plpgsql
immutable
as $$
begin
    return (
        with before as (
            select
                rollup.key as rollup,
                bucket.key::bigint as bucket_us,
                bucket.value as hash
            from jsonb_each(p_before) as rollup
            cross join lateral jsonb_each(rollup.value) as bucket
        ),

        after as (
            select
                rollup.key as rollup,
                bucket.key::bigint as bucket_us,
                bucket.value as hash
            from jsonb_each(p_after) as rollup
            cross join lateral jsonb_each(rollup.value) as bucket
        ),

        changed as (
            select
                rollup,
                bucket_us
            from before
            full join after using (rollup, bucket_us)
            where before.hash is distinct from after.hash
            union
            select
                rollup.key,
                bucket.us::bigint
            from jsonb_each(p_added) as rollup
            cross join lateral jsonb_array_elements_text(rollup.value) as bucket (us)
        )

        select coalesce(jsonb_object_agg(named.rollup, named.buckets), '{}')
        from (
            select
                changed.rollup,
                case
                    when count(*) > 1000 then jsonb_build_object('from_us', min(changed.bucket_us))
                    else jsonb_build_object('buckets', jsonb_agg(changed.bucket_us order by changed.bucket_us))
                end as buckets
            from changed
            group by changed.rollup
        ) as named
    );
end
$$;
comment on function disarray.changed_buckets(jsonb, jsonb, jsonb) is
    'The buckets whose hashes differ and those that were added to, by rollup; of more than a thousand, only from which one on.';

create function disarray.list_commits(p_subject_key text, p_dataset text, p_after_seq bigint, p_limit integer default 100)
returns table (
    subject_key text,
    dataset text,
    commit_seq bigint,
    run_id uuid,
    changed_from timestamptz,
    changed_to timestamptz,
    changed_segments bigint[],
    changed_buckets jsonb,
    is_redefined boolean,
    committed_at timestamptz
)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_first_seq bigint;
begin
    if (p_after_seq >= 0 and p_limit > 0) is not true then
        raise exception 'commits are listed after a number of at least 0 and at least one of them, not after % and %.', p_after_seq, p_limit
        using errcode = 'DA001';
    end if;
    select min(noted.commit_seq)
    into v_first_seq
    from subject_commit as noted
    where
        noted.subject_key = p_subject_key
        and noted.dataset = p_dataset;
    -- Handed out without them, whoever asks would take what is left for all that happened.
    if v_first_seq > p_after_seq + 1 then
        raise exception 'the commits of %/% after number % are no longer kept; the first that is has number %.',
            p_dataset, quote_literal(left(p_subject_key, 200)), p_after_seq, v_first_seq
        using errcode = 'DA012', hint = 'Take the position of follow_commits, load everything, and go on from there.';
    end if;
    return query
    select
        noted.subject_key,
        noted.dataset,
        noted.commit_seq,
        noted.run_id,
        nullif(noted.changed_from, '-infinity'),
        nullif(noted.changed_to, 'infinity'),
        noted.changed_segments,
        noted.changed_buckets,
        noted.is_redefined,
        noted.committed_at
    from subject_commit as noted
    where
        noted.subject_key = p_subject_key
        and noted.dataset = p_dataset
        and noted.commit_seq > p_after_seq
    order by noted.commit_seq
    limit p_limit;
end
$$;
comment on function disarray.list_commits(text, text, bigint, integer) is
    'What the commits after a number changed, in their order and without a gap; refused where some of them are no longer kept. '
    'changed_from NULL: everything may differ; changed_to NULL: without end.';

create function disarray.follow_commits(p_follower text, p_subject_key text, p_dataset text)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_seq bigint;
begin
    if (p_follower <> '' and length(p_follower) <= 200 and p_subject_key <> '' and p_dataset <> '') is not true then
        raise exception 'a follower needs a name of at most 200 characters, a subject and a dataset. Nothing was stored.'
        using errcode = 'DA001';
    end if;
    insert into commit_follower (follower, subject_key, dataset, commit_seq, advanced_at)
    select
        p_follower,
        p_subject_key,
        p_dataset,
        coalesce(max(noted.commit_seq), 0),
        clock()
    from subject_commit as noted
    where
        noted.subject_key = p_subject_key
        and noted.dataset = p_dataset
    on conflict do nothing;
    select known.commit_seq
    into v_seq
    from commit_follower as known
    where
        known.follower = p_follower
        and known.subject_key = p_subject_key
        and known.dataset = p_dataset;
    return v_seq;
end
$$;
comment on function disarray.follow_commits(text, text, text) is
    'The position of a follower; a new one begins at the newest commit, and loads everything after this call. From then on no commit '
    'beyond its position is dropped.';

create function disarray.advance_follower(p_follower text, p_subject_key text, p_dataset text, p_commit_seq bigint)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_seq bigint;
begin
    if p_commit_seq is null or p_commit_seq > (
        select coalesce(max(noted.commit_seq), 0)
        from subject_commit as noted
        where
            noted.subject_key = p_subject_key
            and noted.dataset = p_dataset
    ) then
        raise exception '%/% has no commit % yet. The position of % stays.',
            p_dataset, quote_literal(left(p_subject_key, 200)), p_commit_seq, quote_literal(left(p_follower, 200))
        using errcode = 'DA001';
    end if;
    update commit_follower as known
    set
        -- Of two that work under one name, the slower one does not take back what the faster one did.
        commit_seq = greatest(known.commit_seq, p_commit_seq),
        advanced_at = clock()
    where
        known.follower = p_follower
        and known.subject_key = p_subject_key
        and known.dataset = p_dataset
    returning known.commit_seq into v_seq;
    if not found then
        raise exception '% does not follow %/%. Nothing was stored.',
            quote_literal(left(p_follower, 200)), p_dataset, quote_literal(left(p_subject_key, 200))
        using errcode = 'DA001', hint = 'Call follow_commits first.';
    end if;
    return v_seq;
end
$$;
comment on function disarray.advance_follower(text, text, text, bigint) is
    'Note that a follower has done all commits up to a number; its position, which never goes back.';

create function disarray.unfollow_commits(p_follower text)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_ended bigint;
begin
    delete from commit_follower as known
    where known.follower = p_follower;
    get diagnostics v_ended = row_count;
    return v_ended;
end
$$;
comment on function disarray.unfollow_commits(text) is 'Forget a follower, so that nothing is kept for it any more; how many positions it had.';

create function disarray.list_followers()
returns table (follower text, subject_key text, dataset text, commit_seq bigint, newest_seq bigint, advanced_at timestamptz)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.follower,
    known.subject_key,
    known.dataset,
    known.commit_seq,
    coalesce(newest.commit_seq, 0),
    known.advanced_at
from commit_follower as known
left join lateral (
    select max(noted.commit_seq) as commit_seq
    from subject_commit as noted
    where
        noted.subject_key = known.subject_key
        and noted.dataset = known.dataset
) as newest on true
order by
    known.follower,
    known.subject_key,
    known.dataset
$$;
comment on function disarray.list_followers() is 'How far each follower has come, and how far it could be.';

create function disarray.drop_commits(p_keep interval, p_is_rehearsal boolean default false)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_limit constant timestamptz := clock() - p_keep;
    v_dropped bigint := 0;
begin
    if (p_keep >= interval '1 day') is not true then
        raise exception 'commits are kept for a day at least, not %. Nothing was dropped.', p_keep
        using errcode = 'DA001';
    end if;
    begin
        delete from subject_commit as old
        using (
            select
                noted.subject_key,
                noted.dataset,
                least(
                    -- The newest one stays, whatever its age: the next number follows from it.
                    max(noted.commit_seq),
                    min(noted.commit_seq) filter (where noted.committed_at >= v_limit),
                    (
                        select min(known.commit_seq) + 1
                        from commit_follower as known
                        where
                            known.subject_key = noted.subject_key
                            and known.dataset = noted.dataset
                    )
                ) as first_seq
            from subject_commit as noted
            group by
                noted.subject_key,
                noted.dataset
        ) as kept
        where
            old.subject_key = kept.subject_key
            and old.dataset = kept.dataset
            and old.commit_seq < kept.first_seq;
        get diagnostics v_dropped = row_count;
        if p_is_rehearsal then
            raise sqlstate 'DA099';
        end if;
    -- Caught here, it undoes the block and reaches nobody.
    exception when sqlstate 'DA099' then
        null;
    end;
    return v_dropped;
end
$$;
comment on function disarray.drop_commits(interval, boolean) is
    'Drop commits that are old enough and that every follower has done, oldest first, so that what is left has no gap; how many.';
