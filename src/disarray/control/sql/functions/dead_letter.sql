-- What was given up: every file whose last request failed for good. It stays here until somebody asks again or stops caring.

create function disarray.list_dead_letters(
    p_source_uri text default null,
    p_subject_key text default null,
    p_failed_before timestamptz default null,
    p_limit integer default 100,
    p_after text[] default null
)
returns table (
    source_uri text,
    subject_key text,
    dataset text,
    reason text,
    attempts integer,
    crashes integer,
    failed_at timestamptz,
    last_error text,
    content_hash text
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    dead.source_uri,
    dead.subject_key,
    dead.dataset,
    dead.failed_request ->> 'reason',
    dead.retry_count,
    dead.crash_count,
    dead.failed_at,
    dead.last_error,
    dead.announced_hash
from file_info as dead
where
    dead.failed_at is not null
    and dead.discarded_at is null
    and (p_source_uri is null or dead.source_uri = p_source_uri)
    and (p_subject_key is null or dead.subject_key = p_subject_key)
    and (p_failed_before is null or dead.failed_at < p_failed_before)
    and (dead.failed_at, dead.source_uri) > (coalesce(p_after[1]::timestamptz, '-infinity'), coalesce(p_after[2], ''))
order by
    dead.failed_at,
    dead.source_uri
limit p_limit
$$;
comment on function disarray.list_dead_letters(text, text, timestamptz, integer, text[]) is
    'Files whose last request was given up, oldest first: what it was, why it failed, how often it was tried.';

create function disarray.lock_dead_letters(p_source_uris text[])
returns void
language plpgsql
as $$
declare
    v_other text;
begin
    if (cardinality(p_source_uris) between 1 and 10000) is not true then
        raise exception 'a decision is about 1 to 10000 dead letters, not %. Nothing was changed.',
            coalesce(cardinality(p_source_uris)::text, 'NULL')
        using errcode = 'DA001';
    end if;
    perform
    from disarray.file_info as file
    where file.source_uri = any(p_source_uris)
    order by file.source_uri
    for update;
    select given.uri
    into v_other
    from unnest(p_source_uris) as given (uri)
    where not exists (
        select
        from disarray.file_info as dead
        where
            dead.source_uri = given.uri
            and dead.failed_at is not null
            and dead.discarded_at is null
    )
    limit 1;
    if found then
        raise exception 'file % is no dead letter. Nothing was changed.', coalesce(quote_literal(left(v_other, 200)), 'NULL')
        using errcode = 'DA010', hint = 'disarray dead-letters list names those that are; disarray files show tells where this one stands.';
    end if;
end
$$;
comment on function disarray.lock_dead_letters(text[]) is 'Lock dead letters by name until the decision about them is committed; refuse all if one is none.';

create function disarray.retry_dead_letters(p_source_uris text[], p_reason text, p_by text)
returns table (source_uri text, queue_id bigint)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_dead file_info[];
begin
    perform check_decision(p_reason, p_by);
    perform lock_dead_letters(p_source_uris);
    v_dead := array(
        select file
        from file_info as file
        where file.source_uri = any(p_source_uris)
        order by file.source_uri
    );
    insert into ingest_event (occurred_at, event_type, source_uri, subject_key, metadata)
    select
        clock(),
        'dead_letter_retried',
        dead.source_uri,
        dead.subject_key,
        decision_of(p_reason, p_by) || jsonb_build_object('error', dead.last_error)
    from unnest(v_dead) as dead;
    -- Asked for on purpose, it has all its attempts again; a crash in its history stays, and it runs alone.
    update file_info as file
    set
        retry_count = 0,
        status = case when file.status = 'blacklisted' then file.status else 'pending' end
    where file.source_uri = any(p_source_uris);
    return query
    select
        queued.source_uri,
        queued.queue_id
    from enqueue_requests(
        array(select dead.source_uri from unnest(v_dead) as dead),
        array(select dead.subject_key from unnest(v_dead) as dead),
        array(select dead.failed_request ->> 'reason' from unnest(v_dead) as dead),
        p_by,
        array(select dead.failed_request -> 'metadata' from unnest(v_dead) as dead)
    ) as queued;
end
$$;
comment on function disarray.retry_dead_letters(text[], text, text) is
    'Ask once more for what was given up, with a full set of attempts: the items, all or none.';

create function disarray.discard_dead_letters(p_source_uris text[], p_reason text, p_by text)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
begin
    perform check_decision(p_reason, p_by);
    perform lock_dead_letters(p_source_uris);
    with discarded as (
        update file_info as file
        set discarded_at = v_now
        where file.source_uri = any(p_source_uris)
        returning
            file.source_uri,
            file.subject_key,
            file.last_error
    )

    insert into ingest_event (occurred_at, event_type, source_uri, subject_key, metadata)
    select
        v_now,
        'dead_letter_discarded',
        discarded.source_uri,
        discarded.subject_key,
        decision_of(p_reason, p_by) || jsonb_build_object('error', discarded.last_error)
    from discarded;
end
$$;
comment on function disarray.discard_dead_letters(text[], text, text) is
    'Take dead letters off the list, all or none. The files stay known; a new version of one, or a request by name, revives it.';
