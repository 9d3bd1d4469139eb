create function disarray.blacklist_file(p_source_uri text, p_subject_key text, p_reason text, p_by text)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_file file_info;
    v_part record;
    v_queue_id bigint;
begin
    perform check_uri(p_source_uri);
    perform check_subject(p_subject_key);
    perform check_decision(p_reason, p_by);
    if exists (select from file_info as file where file.source_uri = other_spelling(p_source_uri)) then
        raise exception 'this file is known as %. Nothing was changed.', quote_literal(other_spelling(p_source_uri))
        using errcode = 'DA001', hint = 'Name it so.';
    end if;
    perform refuse_staged(array[p_source_uri]);
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
        blacklisted_at = excluded.blacklisted_at,
        parent_uri = null;
    delete from ingest_queue as item
    where
        item.source_uri = p_source_uri
        and item.status = 'available';
    delete from moving_file as moving
    where
        moving.source_uri = p_source_uri
        and moving.decision is not null;
    insert into ingest_event (occurred_at, event_type, source_uri, subject_key, metadata)
    values (v_now, 'blacklisted', p_source_uri, v_file.subject_key, decision_of(p_reason, p_by));

    -- What it contributed, or is contributing at this moment, has to go.
    if v_file.process_count > 0 or exists (select from ingest_queue as item where item.source_uri = p_source_uri) then
        v_queue_id := enqueue_request(p_source_uri, v_file.subject_key, 'remove', p_by);
    end if;
    -- Of a file about several subjects, its parts go with it; one that was blacklisted before stays so by itself.
    for v_part in
        select
            part.part_uri,
            part.subject_key
        from file_part as part
        where
            part.parent_uri = p_source_uri
            and not exists (select from file_blacklist as own where own.source_uri = part.part_uri)
        order by part.part_uri
    loop
        perform blacklist_file(v_part.part_uri, v_part.subject_key, p_reason, p_by);
        update file_blacklist as listed
        set parent_uri = p_source_uri
        where listed.source_uri = v_part.part_uri;
    end loop;
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
    v_parent_uri text;
    v_part_uri text;
    v_queue_id bigint;
begin
    perform check_decision(p_reason, p_by);
    select listed.source_uri
    into v_parent_uri
    from file_part as part
    inner join file_blacklist as listed on part.parent_uri = listed.source_uri
    where part.part_uri = p_source_uri;
    if found then
        raise exception 'part % belongs to a file that is blacklisted. Nothing was changed.', quote_literal(left(p_source_uri, 200))
        using errcode = 'DA005', hint = 'Allow the file: ' || left(v_parent_uri, 200);
    end if;
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
    v_queue_id := enqueue_request(p_source_uri, v_file.subject_key, 'allow', p_by);
    perform decide_elsewhere(p_source_uri, 'allow');
    for v_part_uri in
        select listed.source_uri
        from file_blacklist as listed
        where listed.parent_uri = p_source_uri
        order by listed.source_uri
    loop
        perform allow_file(v_part_uri, p_reason, p_by);
    end loop;
    return v_queue_id;
end
$$;
comment on function disarray.allow_file(text, text, text) is 'Let a blacklisted file count again; the queue_id of the item that brings it back.';
