create function disarray.blacklist_file(p_source_uri text, p_subject_key text, p_reason text, p_by text)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_file file_info;
    v_queue_id bigint;
begin
    perform check_uri(p_source_uri);
    perform check_subject(p_subject_key);
    perform check_decision(p_reason, p_by);
    if exists (select from file_info as file where file.source_uri = other_spelling(p_source_uri)) then
        raise exception 'this file is known as %. Nothing was changed.', quote_literal(other_spelling(p_source_uri))
        using errcode = 'DA001', hint = 'Name it so.';
    end if;
    -- The file row comes first, whether the file is known or not: it is what enqueue_files locks before it looks at the blacklist.
    insert into file_info as file (source_uri, subject_key, status, first_seen_at, last_seen_at)
    values (p_source_uri, p_subject_key, 'blacklisted', v_now, v_now)
    on conflict (source_uri) do update
    set
        status = 'blacklisted',
        failed_at = null,
        failed_request = null,
        discarded_at = null
    returning file.* into v_file;
    insert into file_blacklist as listed (source_uri, reason, blacklisted_by, blacklisted_at)
    values (p_source_uri, p_reason, p_by, v_now)
    on conflict (source_uri) do update
    set
        reason = excluded.reason,
        blacklisted_by = excluded.blacklisted_by,
        blacklisted_at = excluded.blacklisted_at;
    delete from ingest_queue as item
    where
        item.source_uri = p_source_uri
        and item.status = 'available';
    insert into ingest_event (occurred_at, event_type, source_uri, subject_key, metadata)
    values (v_now, 'blacklisted', p_source_uri, v_file.subject_key, decision_of(p_reason, p_by));

    -- What it contributed, or is contributing at this moment, has to go.
    if v_file.process_count > 0 or exists (select from ingest_queue as item where item.source_uri = p_source_uri) then
        v_queue_id := enqueue_request(p_source_uri, v_file.subject_key, 'remove', p_by);
    end if;
    return v_queue_id;
end
$$;
comment on function disarray.blacklist_file(text, text, text, text) is
    'Make a file count for nothing from now on; the queue_id of the item that removes its readings, or NULL where it has none.';

create function disarray.allow_file(p_source_uri text, p_reason text, p_by text)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_file file_info;
begin
    perform check_decision(p_reason, p_by);
    select file.*
    into v_file
    from file_info as file
    where file.source_uri = p_source_uri
    for update;
    delete from file_blacklist as listed
    where listed.source_uri = p_source_uri;
    if not found then
        raise exception 'file % is not blacklisted. Nothing was changed.', quote_literal(left(p_source_uri, 200))
        using errcode = 'DA005', hint = 'disarray files show tells where it stands.';
    end if;
    insert into ingest_event (occurred_at, event_type, source_uri, subject_key, metadata)
    values (v_now, 'allowed', p_source_uri, v_file.subject_key, decision_of(p_reason, p_by));
    return enqueue_request(p_source_uri, v_file.subject_key, 'allow', p_by);
end
$$;
comment on function disarray.allow_file(text, text, text) is 'Let a blacklisted file count again; the queue_id of the item that brings it back.';
