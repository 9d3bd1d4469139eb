-- Files about several subjects: their parts, and what a split delivers to them.

create function disarray.put_file_parts(p_run_id uuid, p_changes json, p_instance_name text, p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_part record;
begin
    delete from disarray.part_delivery as taken
    using json_to_recordset(p_changes -> 'parts_taken') as given (
        part_uri text, delivery_no bigint, generation integer, parse_version text
    )
    where
        taken.part_uri = given.part_uri
        and taken.delivery_no <= given.delivery_no
        -- What an earlier generation said stays to be taken in, unless it was read in a way that nobody knows any more.
        and (taken.generation = given.generation or taken.parse_version <> given.parse_version);
    if coalesce(json_array_length(p_changes -> 'parts'), 0) > 0 then
        -- Whoever blacklists a file locks its row first: from here on it either is, or the parts are known in time.
        perform
        from disarray.file_info as file
        where file.source_uri in (
            select split.parent_uri
            from json_to_recordset(p_changes -> 'parts') as split (parent_uri text)
        )
        order by file.source_uri
        for update;
        insert into disarray.file_part (part_uri, parent_uri, subject_key, first_split_at)
        select
            split.part_uri,
            split.parent_uri,
            split.subject_key,
            p_now
        from json_to_recordset(p_changes -> 'parts') as split (part_uri text, parent_uri text, subject_key text)
        order by split.part_uri
        on conflict (part_uri) do nothing;
        insert into disarray.part_delivery (
            part_uri, run_id, content_hash, parse_version, generation, seam_position, change, replacement, reason, fragments, paths, fingerprint, delivered_at
        )
        select
            split.part_uri,
            p_run_id,
            split.content_hash,
            split.parse_version,
            split.generation,
            split.seam_position,
            split.change,
            split.replacement,
            disarray.part_reason(asked.reasons),
            split.fragments,
            array(
                select distinct fragment.value ->> 'path'
                from jsonb_array_elements(split.fragments) as fragment
            ),
            decode(split.fingerprint, 'base64'),
            p_now
        from json_to_recordset(p_changes -> 'parts') as split (
            part_uri text, parent_uri text, content_hash text, parse_version text, generation integer, seam_position bigint, change text, replacement text,
            fragments jsonb, fingerprint text
        )
        -- Who may ask for what was decided when it was asked about the file: its parts are read for the same reasons.
        cross join lateral (
            select coalesce(array_agg(reason.text), '{}') as reasons
            from json_to_recordset(p_changes -> 'completions') as done (queue_id bigint)
            inner join disarray.ingest_queue as item on done.queue_id = item.queue_id
            cross join lateral (
                select item.reason::text
                union all
                select jsonb_array_elements_text(coalesce(item.metadata -> 'reasons', '[]'))
            ) as reason (text)
            where item.source_uri = split.parent_uri
        ) as asked
        order by split.part_uri;
        perform disarray.hold_lake_files(array(
            select distinct fragment.value ->> 'path'
            from json_to_recordset(p_changes -> 'parts') as split (fragments jsonb)
            cross join lateral jsonb_array_elements(split.fragments) as fragment
        ));
        -- Blacklisted while it was read: its parts are, too.
        for v_part in
            select
                split.part_uri,
                split.subject_key,
                listed.source_uri as parent_uri,
                listed.reason,
                listed.blacklisted_by
            from json_to_recordset(p_changes -> 'parts') as split (part_uri text, parent_uri text, subject_key text)
            inner join disarray.file_blacklist as listed on split.parent_uri = listed.source_uri
            where not exists (select from disarray.file_blacklist as own where own.source_uri = split.part_uri)
            order by split.part_uri
        loop
            perform disarray.blacklist_file(v_part.part_uri, v_part.subject_key, v_part.reason, v_part.blacklisted_by);
            update disarray.file_blacklist as listed
            set parent_uri = v_part.parent_uri
            where listed.source_uri = v_part.part_uri;
        end loop;
    end if;
    perform disarray.queue_parts(
        array(
            select split.part_uri
            from json_to_recordset(p_changes -> 'parts') as split (part_uri text)
            union
            select given.part_uri
            from json_to_recordset(p_changes -> 'parts_taken') as given (part_uri text)
        ),
        p_instance_name
    );
end
$$;
comment on function disarray.put_file_parts(uuid, json, text, timestamptz) is
    'What a commit split files into, noted and queued; and what it took in of parts, gone from what waits for them.';

create function disarray.part_reason(p_reasons text[])
returns disarray.ingest_queue_reason
language sql
immutable
as $$
select case
    when p_reasons && '{backfill, release}' then 'backfill'
    when 'reingest' = any(p_reasons) then 'reingest'
    when 'rebuild' = any(p_reasons) then 'rebuild'
    else 'file_notification'
end::disarray.ingest_queue_reason
$$;
comment on function disarray.part_reason(text[]) is 'Why the parts of a file are read, from what was asked about the file.';

create function disarray.queue_parts(p_part_uris text[], p_instance_name text)
returns void
language plpgsql
as $$
begin
    -- One at a time: what came after it is queued by the commit that takes it in.
    perform
    from (
        select
            array_agg(first.part_uri order by first.part_uri) as uris,
            array_agg(first.subject_key order by first.part_uri) as subjects,
            array_agg(first.reason::text order by first.part_uri) as reasons,
            array_agg(first.metadata order by first.part_uri) as metadata
        from (
            select distinct on (waiting.part_uri)
                waiting.part_uri,
                part.subject_key,
                waiting.reason,
                case
                    when parent.dataset is null then '{}'::jsonb
                    else jsonb_build_object('dataset', parent.dataset)
                end as metadata
            from disarray.part_delivery as waiting
            inner join disarray.file_part as part on waiting.part_uri = part.part_uri
            inner join disarray.file_info as parent on part.parent_uri = parent.source_uri
            where waiting.part_uri = any(p_part_uris)
            order by
                waiting.part_uri,
                waiting.delivery_no
        ) as first
    ) as batch
    cross join lateral disarray.enqueue_requests(batch.uris, batch.subjects, batch.reasons, p_instance_name, batch.metadata)
    where batch.uris is not null;
    -- Not with the request: the same bytes may be delivered once more, with their last line or under another definition.
    update disarray.ingest_queue as item
    set content_hash = first.content_hash
    from (
        select distinct on (waiting.part_uri)
            waiting.part_uri,
            waiting.content_hash
        from disarray.part_delivery as waiting
        where waiting.part_uri = any(p_part_uris)
        order by
            waiting.part_uri,
            waiting.delivery_no
    ) as first
    where
        item.source_uri = first.part_uri
        and item.status = 'available';
    -- A part is as old as its file: where files disagree and the one that came first or last wins, so do their parts.
    update disarray.file_info as file
    set
        arrival = parent.arrival,
        announced_hash = coalesce(
            (
                select waiting.content_hash
                from disarray.part_delivery as waiting
                where waiting.part_uri = file.source_uri
                order by waiting.delivery_no desc
                limit 1
            ),
            -- Nothing is on its way: what is read now is the newest there is.
            (
                select item.content_hash
                from disarray.ingest_queue as item
                where
                    item.source_uri = file.source_uri
                    and item.status = 'claimed'
            )
        )
    from disarray.file_part as part
    inner join disarray.file_info as parent on part.parent_uri = parent.source_uri
    where
        file.source_uri = any(p_part_uris)
        and part.part_uri = file.source_uri;
end
$$;
comment on function disarray.queue_parts(text[], text) is 'Queue those of some parts for which something waits.';

create function disarray.load_file_parts(p_parent_uris text[])
returns table (part_uri text, parent_uri text, subject_key text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    part.part_uri,
    part.parent_uri,
    part.subject_key
from file_part as part
where part.parent_uri = any(p_parent_uris)
order by part.part_uri
$$;
comment on function disarray.load_file_parts(text[]) is 'The parts that some files were ever split into.';

create function disarray.load_part_deliveries(p_part_uris text[])
returns table (
    part_uri text,
    parent_uri text,
    delivery_no bigint,
    parse_version text,
    generation integer,
    seam_position bigint,
    change text,
    replacement text,
    fragments jsonb,
    fingerprint bytea
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    waiting.part_uri,
    part.parent_uri,
    waiting.delivery_no,
    waiting.parse_version,
    waiting.generation,
    waiting.seam_position,
    waiting.change,
    waiting.replacement,
    waiting.fragments,
    waiting.fingerprint
from part_delivery as waiting
inner join file_part as part on waiting.part_uri = part.part_uri
where waiting.part_uri = any(p_part_uris)
order by
    waiting.part_uri,
    waiting.delivery_no
$$;
comment on function disarray.load_part_deliveries(text[]) is 'What splits found out about some parts and nobody has taken in yet, oldest first.';

create function disarray.load_part_parents(p_part_uris text[])
returns table (part_uri text, parent_uri text, fingerprint bytea)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    part.part_uri,
    part.parent_uri,
    known.fingerprint
from file_part as part
inner join file_fingerprint as known on part.parent_uri = known.source_uri
where part.part_uri = any(p_part_uris)
$$;
comment on function disarray.load_part_parents(text[]) is 'The files that some parts are parts of, and what is remembered of the bytes of these.';

create function disarray.list_split_files(p_after text, p_limit integer default 100)
returns table (parent_uri text, fingerprint bytea, parts jsonb)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    parent.parent_uri,
    known.fingerprint,
    (
        select jsonb_agg(
            jsonb_build_object(
                'part_uri', part.part_uri,
                'subject_key', part.subject_key,
                'fingerprint', encode(own.fingerprint, 'base64'),
                'is_known', exists (select from file_info as file where file.source_uri = part.part_uri),
                'is_waiting', exists (select from part_delivery as waiting where waiting.part_uri = part.part_uri),
                'is_queued', exists (select from ingest_queue as item where item.source_uri = part.part_uri),
                'is_blacklisted', exists (select from file_blacklist as listed where listed.source_uri = part.part_uri),
                'is_failed', exists (
                    select
                    from file_info as file
                    where
                        file.source_uri = part.part_uri
                        and file.failed_at is not null
                )
            )
            order by part.part_uri
        )
        from file_part as part
        left join file_fingerprint as own on part.part_uri = own.source_uri
        where part.parent_uri = parent.parent_uri
    )
from (
    select distinct part.parent_uri
    from file_part as part
    where part.parent_uri > p_after
    order by part.parent_uri
    limit least(p_limit, 1000)
) as parent
left join file_fingerprint as known on parent.parent_uri = known.source_uri
order by parent.parent_uri
$$;
comment on function disarray.list_split_files(text, integer) is
    'Files that were split, by uri, with what is remembered of them and of each of their parts, and what is on its way to these.';
