-- How files come in. Locks are taken in this order everywhere: subject_lock, file_info, ingest_queue, subject;
-- inside a table by key. Whoever goes against the order (fetch_items) skips what is locked and never waits.

create function disarray.enqueue_files(
    p_source_uris text[],
    p_subject_keys text[],
    p_reasons text[] default null,
    p_instance_name text default null,
    p_metadata jsonb[] default null
)
returns table (source_uri text, queue_id bigint, verdict text)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform check_announcements(p_reasons, p_metadata);
    -- Looked at as one text first: that is no statement.
    if strpos(array_to_string(p_source_uris, ''), '#') > 0
        and exists (select from unnest(p_source_uris) as given (uri) where given.uri like 'file:%#%')
    then
        raise exception 'a part of a file is queued when the file is split. Nothing was stored.'
        using errcode = 'DA001', hint = 'Announce the file.';
    end if;
    return query
    select
        queued.source_uri,
        queued.queue_id,
        queued.verdict
    from enqueue_requests(p_source_uris, p_subject_keys, p_reasons, p_instance_name, p_metadata) as queued;
end
$$;
comment on function disarray.enqueue_files(text[], text[], text[], text, jsonb[]) is
    'Take in announcements of files: verdict enqueued or merged with the queue_id, unchanged or refused_blacklisted without. '
    'Metadata keys content_hash, dataset and parse_version identify the version that is announced. Reasons are '
    'file_notification and quiet: what else can be asked about a file is decided by operators, with functions of their own.';

create function disarray.enqueue_file(
    p_source_uri text,
    p_subject_key text,
    p_reason text default 'file_notification',
    p_instance_name text default null,
    p_metadata jsonb default '{}'
)
returns bigint
language sql
security definer
set search_path = disarray, pg_temp
as $$
select queued.queue_id
from enqueue_files(
    array[p_source_uri],
    array[p_subject_key],
    array[p_reason],
    p_instance_name,
    array[p_metadata]
) as queued
$$;
comment on function disarray.enqueue_file(text, text, text, text, jsonb) is
    'Take in one announcement; the queue_id, or NULL where nothing is to be done (unchanged, or blacklisted).';

create function disarray.enqueue_requests(
    p_source_uris text[],
    p_subject_keys text[],
    p_reasons text[],
    p_instance_name text,
    p_metadata jsonb[]
)
returns table (source_uri text, queue_id bigint, verdict text)
language plpgsql
set search_path = disarray, pg_temp
-- Planning each statement anew costs more than running it. A plan that is kept must be good for a full queue also
-- when it was made for an empty one, where reading whole tables looks just as cheap as probing an index.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    v_now constant timestamptz := clock();
    v_new_uris text[];
    v_known_otherwise text[];
begin
    perform check_file_requests(p_source_uris, p_subject_keys, p_reasons, p_metadata);
    if p_instance_name is not null then
        perform check_instance(p_instance_name);
    end if;

    if cardinality(p_source_uris) > 1
        and (select count(distinct given.uri) from unnest(p_source_uris) as given (uri)) < cardinality(p_source_uris)
    then
        return query
        select
            queued.source_uri,
            queued.queue_id,
            queued.verdict
        from enqueue_repeated_requests(p_source_uris, p_subject_keys, p_reasons, p_instance_name, p_metadata) as queued;
        return;
    end if;
    with inserted as (
        insert into file_info (source_uri, subject_key, dataset, status, announced_hash, first_seen_at, last_seen_at, metadata)
        select
            request.uri,
            request.subject,
            request.metadata ->> 'dataset',
            'pending',
            request.metadata ->> 'content_hash',
            v_now,
            v_now,
            coalesce(request.metadata, '{}')
        from unnest(p_source_uris, p_subject_keys, p_metadata) as request (uri, subject, metadata)
        order by request.uri
        on conflict on constraint file_info_pkey do nothing
        returning file_info.source_uri
    )
    select coalesce(array_agg(inserted.source_uri), '{}')
    into v_new_uris
    from inserted;
    if cardinality(v_new_uris) > 0 then
        perform refuse_staged(v_new_uris);
        v_known_otherwise := array(
            select new.uri
            from unnest(v_new_uris) as new (uri)
            inner join file_info as file on other_spelling(new.uri) = file.source_uri
        );
    end if;
    if cardinality(v_known_otherwise) > 0 then
        -- A path and its uri are one file. Under a second name it would count although the first is blacklisted.
        delete from file_info as file
        where file.source_uri = any(v_new_uris);
        return query
        select
            queued.source_uri,
            queued.queue_id,
            queued.verdict
        from enqueue_requests(
            array(
                select case when given.uri = any(v_known_otherwise) then other_spelling(given.uri) else given.uri end
                from unnest(p_source_uris) with ordinality as given (uri, place)
                order by given.place
            ),
            p_subject_keys,
            p_reasons,
            p_instance_name,
            p_metadata
        ) as queued;
        return;
    end if;

    if cardinality(v_new_uris) = cardinality(p_source_uris) then
        return query
        select
            queued.source_uri,
            queued.queue_id,
            queued.verdict
        from queue_new_files(p_source_uris, p_subject_keys, p_reasons, p_instance_name, p_metadata, v_now) as queued;
        return;
    end if;
    return query
    select
        queued.source_uri,
        queued.queue_id,
        queued.verdict
    from queue_requests(
        judge_known_files(p_source_uris, p_subject_keys, p_reasons, p_metadata, v_new_uris, v_now),
        p_instance_name,
        v_now
    ) as queued;
end
$$;
comment on function disarray.enqueue_requests(text[], text[], text[], text, jsonb[]) is
    'Take in whatever is asked about files: announcements, and what was decided by who may.';

create function disarray.enqueue_repeated_requests(
    p_source_uris text[],
    p_subject_keys text[],
    p_reasons text[],
    p_instance_name text,
    p_metadata jsonb[]
)
returns table (source_uri text, queue_id bigint, verdict text)
language sql
set search_path = disarray, pg_temp
as $$
select
    queued.source_uri,
    queued.queue_id,
    queued.verdict
from (
    select
        array_agg(given.uri order by given.uri) as uris,
        array_agg(given.subject order by given.uri) as subjects,
        array_agg(given.reason::text order by given.uri) as reasons,
        array_agg(given.metadata order by given.uri) as metadata
    from (
        select
            request.uri,
            (array_agg(request.subject order by request.place desc))[1] as subject,
            last_shown_reason(parse_reason(coalesce(request.reason, 'file_notification')) order by request.place) as reason,
            case
                when count(*) = 1 then merge_metadata(coalesce(request.metadata, '{}') order by request.place)
                -- Capped, as when the requests come one by one.
                else merged_metadata(
                    merge_metadata(coalesce(request.metadata, '{}') order by request.place),
                    coalesce((array_agg(request.metadata order by request.place desc))[1], '{}')
                )
            end as metadata
        from unnest(p_source_uris, p_subject_keys, p_reasons, p_metadata)
            with ordinality as request (uri, subject, reason, metadata, place)
        group by request.uri
    ) as given
) as merged
cross join lateral enqueue_requests(merged.uris, merged.subjects, merged.reasons, p_instance_name, merged.metadata) as queued
$$;
comment on function disarray.enqueue_repeated_requests(text[], text[], text[], text, jsonb[]) is
    'Take in a batch that names files more than once: what it asks of each as one request.';

create function disarray.other_spelling(p_source_uri text)
returns text
language sql
immutable
as $$
select case
    when starts_with(p_source_uri, 'file:///') and strpos(p_source_uri, '%') = 0 then substr(p_source_uri, 8)
    else disarray.other_escaped_spelling(p_source_uri)
end
$$;
comment on function disarray.other_spelling(text) is 'The path of a file for its uri, the uri for its path; NULL where there is none.';

create function disarray.other_escaped_spelling(p_source_uri text)
returns text
language plpgsql
immutable
as $$
begin
    if p_source_uri ~ '^/' then
        return 'file://' || (
            select string_agg(
                case
                    when letter.text ~ '[A-Za-z0-9_.~/!$&''()*+,;=:@-]' then letter.text
                    else upper(regexp_replace(encode(convert_to(letter.text, 'UTF8'), 'hex'), '(..)', '%\1', 'g'))
                end,
                ''
                order by letter.place
            )
            from regexp_split_to_table(p_source_uri, '') with ordinality as letter (text, place)
        );
    end if;
    if p_source_uri !~ '^file:///' then
        return null;
    end if;
    return (
        select convert_from(
            string_agg(
                case
                    when part.text[1] ~ '^%' then decode(substr(part.text[1], 2), 'hex')
                    else convert_to(part.text[1], 'UTF8')
                end,
                ''::bytea
                order by part.place
            ),
            'UTF8'
        )
        from regexp_matches(substr(p_source_uri, 8), '%[0-9A-F]{2}|[^%]', 'g') with ordinality as part (text, place)
    );
exception
    -- Bytes that are no text: such a path has one spelling.
    when character_not_in_repertoire or untranslatable_character then
        return null;
end
$$;
comment on function disarray.other_escaped_spelling(text) is 'The other spelling of a path, or of a uri that escapes something; NULL where there is none.';

create function disarray.enqueue_request(
    p_source_uri text,
    p_subject_key text,
    p_reason text,
    p_instance_name text,
    p_metadata jsonb default '{}'
)
returns bigint
language sql
set search_path = disarray, pg_temp
as $$
select queued.queue_id
from enqueue_requests(
    array[p_source_uri],
    array[p_subject_key],
    array[p_reason],
    p_instance_name,
    array[p_metadata]
) as queued
$$;
comment on function disarray.enqueue_request(text, text, text, text, jsonb) is
    'Ask one thing about a file; the queue_id, or NULL where nothing is to be done.';

create function disarray.check_file_requests(
    p_source_uris text[],
    p_subject_keys text[],
    p_reasons text[],
    p_metadata jsonb[]
)
returns void
language plpgsql
stable
as $$
declare
    v_count constant integer := cardinality(p_source_uris);
    v_of_subjects constant text[] := '{reconcile, compact, copy}';
begin
    if v_count is distinct from cardinality(p_subject_keys)
        or v_count <> coalesce(cardinality(p_reasons), v_count)
        or v_count <> coalesce(cardinality(p_metadata), v_count)
    then
        raise exception 'enqueue_files needs one subject key, reason and metadata for each of the % uris. Nothing was stored.', v_count
        using errcode = 'DA001';
    end if;
    if p_reasons && v_of_subjects then
        raise exception '% is done to a subject, not to a file. Nothing was stored.', (
            select quote_literal(request.reason)
            from unnest(p_reasons) as request (reason)
            where request.reason = any(v_of_subjects)
            limit 1
        )
        using errcode = 'DA001';
    end if;
    -- Most hold nothing that could be wrong, and one look at them all is enough.
    perform
        disarray.check_uri(request.uri),
        disarray.check_metadata(request.metadata)
    from (
        select
            given.uri,
            coalesce(given.metadata, '{}') as metadata,
            coalesce(given.metadata, '{}')::text as text
        from unnest(p_source_uris, p_metadata) as given (uri, metadata)
        offset 0
    ) as request
    where (disarray.is_plain_uri(request.uri) and disarray.is_flat_metadata(request.text)) is not true;
    -- A batch names few subjects and reasons, each of them often.
    perform
        disarray.check_subject(request.subject),
        disarray.parse_reason(request.reason)
    from (
        select distinct
            given.subject,
            given.reason
        from unnest(p_subject_keys, p_reasons) as given (subject, reason)
    ) as request;
end
$$;
comment on function disarray.check_file_requests(text[], text[], text[], jsonb[]) is 'Refuse a batch as a whole when any part of it cannot be stored.';

create function disarray.judge_known_files(
    p_source_uris text[],
    p_subject_keys text[],
    p_reasons text[],
    p_metadata jsonb[],
    p_new_uris text[],
    p_now timestamptz
)
returns disarray.file_request[]
language plpgsql
-- As in enqueue_files: each file is looked up by its key, also by a plan that was made when few were known.
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_requests disarray.file_request[];
begin
    perform
    from disarray.file_info as file
    where file.source_uri = any(p_source_uris)
    order by file.source_uri
    for update;

    -- A statement of its own: only now, with the rows locked, does a snapshot show what they really say.
    v_requests := array(
        select row(
            request.source_uri,
            request.subject_key,
            request.reason,
            request.metadata,
            coalesce(request.dataset, file.dataset),
            coalesce(request.content_hash, file.announced_hash),
            request.parse_version,
            case
                when file.source_uri = any(p_new_uris) then 'enqueued'
                when request.reason <> 'remove' and blacklist.source_uri is not null then 'refused_blacklisted'
                when
                    file.discarded_at is not null
                    and not disarray.is_asked_for(request.reason)
                    and request.content_hash = file.announced_hash
                    then 'unchanged'
                when file.status in ('pending', 'blacklisted') then 'enqueued'
                when request.parse_version is distinct from file.parse_version and request.parse_version is not null then 'enqueued'
                when request.reason = 'file_notification' and request.content_hash = file.announced_hash then 'unchanged'
                when request.reason = 'quiet' and request.content_hash = file.quiet_hash then 'unchanged'
                else 'enqueued'
            end,
            judged.is_new_version,
            file.announced_hash,
            -- Attempts belong to the content; whoever asks again on purpose gets a full set of them.
            case when judged.is_new_version or disarray.is_asked_for(request.reason) then 0 else file.retry_count end,
            case when judged.is_new_version then 0 else file.crash_count end
        )::disarray.file_request
        from (
            select
                given.uri as source_uri,
                given.subject as subject_key,
                coalesce(given.reason, 'file_notification')::disarray.ingest_queue_reason as reason,
                coalesce(given.metadata, '{}') as metadata,
                given.metadata ->> 'dataset' as dataset,
                given.metadata ->> 'content_hash' as content_hash,
                given.metadata ->> 'parse_version' as parse_version
            from unnest(p_source_uris, p_subject_keys, p_reasons, p_metadata) as given (uri, subject, reason, metadata)
        ) as request
        inner join disarray.file_info as file on request.source_uri = file.source_uri
        left join disarray.file_blacklist as blacklist on request.source_uri = blacklist.source_uri
        cross join lateral (
            select
                file.source_uri = any(p_new_uris)
                or (request.content_hash is not null and request.content_hash is distinct from file.announced_hash)
        ) as judged (is_new_version)
        order by request.source_uri
    );

    update disarray.file_info as file
    set
        last_seen_at = p_now,
        status = case
            when request.verdict = 'refused_blacklisted' or request.reason = 'remove' then 'blacklisted'
            when request.verdict = 'enqueued' then 'pending'
            else file.status
        end,
        -- Of a file that was never taken in nothing is known but what is announced; any other belongs to whom it was read for.
        subject_key = case when request.verdict = 'enqueued' and file.process_count = 0 then request.subject_key else file.subject_key end,
        dataset = case when request.verdict = 'enqueued' and file.process_count = 0 then request.dataset else file.dataset end,
        announced_hash = case when request.verdict = 'enqueued' then request.content_hash else file.announced_hash end,
        retry_count = case when request.verdict = 'enqueued' then request.retry_count else file.retry_count end,
        crash_count = case when request.verdict = 'enqueued' then request.crash_count else file.crash_count end,
        failed_at = case when request.verdict <> 'enqueued' then file.failed_at end,
        failed_request = case when request.verdict <> 'enqueued' then file.failed_request end,
        discarded_at = case when request.verdict <> 'enqueued' then file.discarded_at end,
        metadata = case
            when request.verdict = 'enqueued' then disarray.merged_metadata(file.metadata, request.metadata)
            else file.metadata
        end
    from unnest(v_requests) as request
    where
        file.source_uri = request.source_uri
        and not file.source_uri = any(p_new_uris);
    return v_requests;
end
$$;
comment on function disarray.judge_known_files(text[], text[], text[], jsonb[], text[], timestamptz) is
    'Decide under the row locks what each notification of a batch with known files means, and write it into file_info.';

create function disarray.queue_new_files(
    p_source_uris text[],
    p_subject_keys text[],
    p_reasons text[],
    p_instance_name text,
    p_metadata jsonb[],
    p_now timestamptz
)
returns table (source_uri text, queue_id bigint, verdict text)
language plpgsql
as $$
#variable_conflict use_column
begin
    return query
    with queued as (
        insert into disarray.ingest_queue as waiting (
            kind, lane, source_uri, subject_key, dataset, reason, content_hash, metadata, requested_by_instance_name, enqueued_at, available_at
        )
        select
            disarray.file_order_kind(request.reason),
            disarray.lane_of(disarray.file_order_kind(request.reason)),
            request.uri,
            request.subject,
            request.metadata ->> 'dataset',
            request.reason,
            request.metadata ->> 'content_hash',
            coalesce(request.metadata, '{}'),
            p_instance_name,
            p_now,
            p_now
        from (
            select
                given.uri,
                given.subject,
                coalesce(given.reason, 'file_notification')::disarray.ingest_queue_reason as reason,
                given.metadata
            from unnest(p_source_uris, p_subject_keys, p_reasons, p_metadata) as given (uri, subject, reason, metadata)
        ) as request
        order by request.uri
        returning
            waiting.source_uri,
            waiting.queue_id,
            waiting.subject_key,
            waiting.reason,
            waiting.content_hash
    ),

    logged as (
        insert into disarray.ingest_event (
            occurred_at, event_type, source_uri, subject_key, instance_name, queue_id, reason, content_hash
        )
        select
            p_now,
            'enqueued',
            queued.source_uri,
            queued.subject_key,
            p_instance_name,
            queued.queue_id,
            queued.reason,
            queued.content_hash
        from queued
    )

    select
        queued.source_uri,
        queued.queue_id,
        'enqueued'
    from queued;
    perform disarray.call_turns(array_agg(distinct queued.subject_key), queued.lane, p_now)
    from (
        select distinct
            given.subject as subject_key,
            disarray.lane_of(disarray.file_order_kind(coalesce(given.reason, 'file_notification')::disarray.ingest_queue_reason)) as lane
        from unnest(p_subject_keys, p_reasons) as given (subject, reason)
    ) as queued
    group by queued.lane;
end
$$;
comment on function disarray.queue_new_files(text[], text[], text[], text, jsonb[], timestamptz) is
    'Queue files that this call made known: nothing waits that they could merge with, and nothing was decided about them.';

create function disarray.queue_requests(p_requests disarray.file_request[], p_instance_name text, p_now timestamptz)
returns table (source_uri text, queue_id bigint, verdict text)
language plpgsql
as $$
#variable_conflict use_column
begin
    -- Announced once more and nothing to do, as after the start of an agent: to begin with the rest would cost more than this.
    if not exists (select from unnest(p_requests) as request where request.verdict = 'enqueued') then
        insert into disarray.ingest_event (occurred_at, event_type, source_uri, subject_key, instance_name, reason, content_hash)
        select
            p_now,
            request.verdict::disarray.ingest_event_event_type,
            request.source_uri,
            request.subject_key,
            p_instance_name,
            request.reason,
            request.content_hash
        from unnest(p_requests) as request;
        return query
        select
            request.source_uri,
            null::bigint,
            request.verdict
        from unnest(p_requests) as request;
        return;
    end if;
    return query
    with queued as (
        insert into disarray.ingest_queue as waiting (
            kind, lane, source_uri, subject_key, dataset, reason, content_hash, metadata,
            requested_by_instance_name, retry_count, crash_count, enqueued_at, available_at
        )
        select
            disarray.file_order_kind(request.reason),
            disarray.lane_of(disarray.file_order_kind(request.reason)),
            request.source_uri,
            request.subject_key,
            request.dataset,
            request.reason,
            request.content_hash,
            request.metadata,
            p_instance_name,
            request.retry_count,
            request.crash_count,
            p_now,
            p_now
        from unnest(p_requests) as request
        where request.verdict = 'enqueued'
        on conflict (source_uri, status) do update
        set
            -- Reading and removing exclude each other. An operator who changes their mind is right the second time, and what
            -- comes after a removal comes from a file that was allowed again: removing it once more would lose it.
            kind = excluded.kind,
            lane = excluded.lane,
            subject_key = excluded.subject_key,
            dataset = excluded.dataset,
            reason = disarray.shown_reason(waiting.reason, excluded.reason),
            content_hash = excluded.content_hash,
            metadata = disarray.merged_request(waiting.metadata, waiting.reason, excluded.metadata, excluded.reason),
            requested_by_instance_name = excluded.requested_by_instance_name,
            retry_count = excluded.retry_count,
            crash_count = excluded.crash_count,
            -- A file that waits after a failure goes on waiting, unless it changed or somebody asks on purpose.
            available_at = case
                when excluded.content_hash is distinct from waiting.content_hash or disarray.is_asked_for(excluded.reason)
                    then least(waiting.available_at, excluded.available_at)
                else waiting.available_at
            end
        returning
            waiting.source_uri,
            waiting.queue_id,
            waiting.subject_key,
            -- A row that was inserted has no deleting or locking transaction; one that was merged has ours.
            case when waiting.xmax = 0 then 'enqueued' else 'merged' end as verdict
    ),

    answered as (
        select
            request.*,
            queued.queue_id,
            coalesce(queued.verdict, request.verdict) as answer
        from unnest(p_requests) as request
        left join queued on request.source_uri = queued.source_uri
    ),

    logged as (
        insert into disarray.ingest_event (
            occurred_at, event_type, source_uri, subject_key, instance_name, queue_id, reason, content_hash, metadata
        )
        select
            p_now,
            answered.answer::disarray.ingest_event_event_type,
            answered.source_uri,
            answered.subject_key,
            p_instance_name,
            answered.queue_id,
            answered.reason,
            answered.content_hash,
            '{}'::jsonb
        from answered
        union all
        select
            p_now,
            'superseded',
            answered.source_uri,
            answered.subject_key,
            p_instance_name,
            null,
            null,
            answered.former_hash,
            jsonb_build_object('by', answered.content_hash)
        from answered
        where
            answered.answer = 'merged'
            and answered.is_new_version
            and answered.former_hash is not null
    )

    select
        answered.source_uri,
        answered.queue_id,
        answered.answer
    from answered
    order by answered.source_uri;
    perform disarray.call_turns(array_agg(distinct queued.subject_key), queued.lane, p_now)
    from (
        select
            request.subject_key,
            disarray.lane_of(disarray.file_order_kind(request.reason)) as lane
        from unnest(p_requests) as request
        where request.verdict = 'enqueued'
    ) as queued
    group by queued.lane;
end
$$;
comment on function disarray.queue_requests(disarray.file_request[], text, timestamptz) is
    'Give every request that needs work its one available row, tell the subjects, and log each answer.';

create function disarray.reingest_file(p_source_uri text, p_reason text, p_by text)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_file file_info;
begin
    perform check_decision(p_reason, p_by);
    select file.*
    into v_file
    from file_info as file
    where file.source_uri = p_source_uri
    for update;
    if not found then
        raise exception 'no file % was ever announced. Nothing was changed.', coalesce(quote_literal(left(p_source_uri, 200)), 'NULL')
        using errcode = 'DA011', hint = 'disarray files list names those that were.';
    end if;
    insert into ingest_event (occurred_at, event_type, source_uri, subject_key, metadata)
    values (clock(), 'reingest_requested', p_source_uri, v_file.subject_key, decision_of(p_reason, p_by));
    return enqueue_request(
        p_source_uri, v_file.subject_key, 'reingest', p_by,
        case when v_file.dataset is null then '{}' else jsonb_build_object('dataset', v_file.dataset) end
    );
end
$$;
comment on function disarray.reingest_file(text, text, text) is
    'Read a file again from its first byte; the queue_id of the item that does it, or NULL where the file is blacklisted.';

create function disarray.list_files(
    p_status text default null,
    p_subject_key text default null,
    p_limit integer default 100,
    p_after text[] default null,
    p_source_name text default null
)
returns table (
    source_uri text,
    subject_key text,
    dataset text,
    status text,
    content_hash text,
    process_count integer,
    retry_count integer,
    last_error text,
    first_seen_at timestamptz,
    last_seen_at timestamptz,
    parent_uri text
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.source_uri,
    file.subject_key,
    file.dataset,
    file.status::text,
    file.content_hash,
    file.process_count,
    file.retry_count,
    file.last_error,
    file.first_seen_at,
    file.last_seen_at,
    (select part.parent_uri from file_part as part where part.part_uri = file.source_uri)
from file_info as file
where
    (p_status is null or file.status::text = p_status)
    and (p_subject_key is null or file.subject_key = p_subject_key)
    and file.source_uri > coalesce(p_after[1], '')
    and (
        p_source_name is null
        or file.source_uri in (
            select delivered.source_uri
            from delivery as delivered
            inner join delivery_batch as batch on delivered.batch_no = batch.batch_no
            where batch.source_name = p_source_name
        )
    )
order by file.source_uri
limit p_limit
$$;
comment on function disarray.list_files(text, text, integer, text[], text) is
    'Files that were ever announced, or that a source delivered, and where each stands.';

create function disarray.describe_file(p_source_uri text)
returns jsonb
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select to_jsonb(file) || jsonb_build_object(
    'fragments', (
        select coalesce(jsonb_object_agg(counted.state, counted.stored), '{}')
        from (
            select
                case when stored.withdrawn_state is null then stored.state::text else 'withdrawn' end as state,
                jsonb_build_object('fragments', count(*), 'readings', sum(stored.readings)) as stored
            from fragment as stored
            where
                stored.source_uri = file.source_uri
                and (stored.state <> 'dropped' or stored.withdrawn_state is not null)
            group by 1
        ) as counted
    ),
    'segments', (
        select coalesce(jsonb_agg(to_jsonb(part) order by part.dataset, part.segment_us, part.state), '[]')
        from (
            select
                stored.dataset,
                stored.segment_us,
                stored.state,
                count(*) as fragments,
                sum(stored.readings) as readings,
                max(stored.generation) as generation,
                min(stored.first_us) as first_us,
                max(stored.last_us) as last_us,
                max(stored.created_at) as changed_at,
                (array_agg(stored.run_id order by stored.fragment_id desc))[1] as run_id,
                max(around.readings) as segment_readings,
                max(around.duplicates) as segment_duplicates
            from fragment as stored
            left join segment as around
                on
                    stored.dataset = around.dataset
                    and stored.subject_key = around.subject_key
                    and stored.segment_us = around.segment_us
            where
                stored.source_uri = file.source_uri
                and stored.state <> 'dropped'
            group by
                stored.dataset,
                stored.segment_us,
                stored.state
            order by
                stored.dataset,
                stored.segment_us,
                stored.state
            limit 1000
        ) as part
    ),
    'rejected_count', (
        select count(*)
        from rejected_row as rejected
        where rejected.source_uri = file.source_uri
    ),
    'rejected_rows', (
        select coalesce(jsonb_agg(to_jsonb(shown) - 'source_uri' - 'run_id' order by shown.position), '[]')
        from (
            select rejected.*
            from rejected_row as rejected
            where rejected.source_uri = file.source_uri
            order by rejected.position
            limit 20
        ) as shown  -- not `line`: that is a column of it
    ),
    'conflicts', (
        select jsonb_build_object(
            'won', coalesce(sum(found.conflicts) filter (where found.winner_uri = file.source_uri), 0),
            'lost', coalesce(sum(found.conflicts) filter (where found.loser_uri = file.source_uri), 0),
            'segments', count(distinct found.segment_us)
        )
        from conflict as found
        where file.source_uri in (found.winner_uri, found.loser_uri)
    ),
    'blacklist', (
        select to_jsonb(listed) - 'source_uri'
        from file_blacklist as listed
        where listed.source_uri = file.source_uri
    ),
    'delivery', (
        select jsonb_build_object(
            'source', batch.source_name,
            'batch', batch.batch_no,
            'run_id', batch.run_id,
            'cursor_from', batch.cursor_from,
            'cursor_to', batch.cursor_to,
            'rows', delivered.rows,
            'delivered_at', batch.delivered_at,
            'deleted_at', delivered.deleted_at
        )
        from delivery as delivered
        inner join delivery_batch as batch on delivered.batch_no = batch.batch_no
        where delivered.source_uri = file.source_uri
    ),
    'parent_uri', (
        select part.parent_uri
        from file_part as part
        where part.part_uri = file.source_uri
    ),
    'parts', (
        select coalesce(jsonb_agg(to_jsonb(shown) order by shown.source_uri), '[]')
        from (
            select
                part.part_uri as source_uri,
                part.subject_key,
                known.status,
                coalesce((known.metadata #>> '{lines, kept}')::bigint, 0) as readings,
                (
                    select count(*)
                    from part_delivery as waiting
                    where waiting.part_uri = part.part_uri
                ) as waiting
            from file_part as part
            inner join file_info as known on part.part_uri = known.source_uri
            where part.parent_uri = file.source_uri
            order by part.part_uri
            limit 1000
        ) as shown
    )
)
from file_info as file
where file.source_uri = p_source_uri
$$;
comment on function disarray.describe_file(text) is 'All that is known of a file, with the first lines that were rejected, the batch that delivered it, and its parts or its parent; NULL where it was never announced.';
