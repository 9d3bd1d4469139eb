-- Notices of commits, for those who follow a subject. The number of a commit is given out under the lock row of the subject: a
-- follower that has done number n misses nothing if it goes on with n + 1.

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
