-- Deliveries: files that a source wrote, taken in with what it says about them in one transaction.

create function disarray.next_batch()
returns bigint
language sql
security definer
set search_path = disarray, pg_temp
as $$
select nextval('disarray.batch_seq')
$$;
comment on function disarray.next_batch() is 'The number of a new batch, greater than every number before. Nothing is written.';

create function disarray.record_deliveries(
    p_batch_no bigint,
    p_source_name text,
    p_dataset text,
    p_run_id uuid,
    p_instance_name text,
    p_counts jsonb,
    p_cursor_from text,
    p_cursor_to text,
    p_source_uris text[],
    p_subject_keys text[],
    p_rows bigint[],
    p_bytes bigint[],
    p_lane text default 'live'
)
returns table (source_uri text, queue_id bigint, verdict text)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
begin
    if p_batch_no is null or p_run_id is null or p_dataset is null or coalesce(p_source_name, '') !~ '^[a-z][a-z0-9_-]{0,126}$' then
        raise exception 'a batch has a number, a run, a dataset and the name of its source. Nothing was stored.'
        using errcode = 'DA001';
    end if;
    if coalesce(cardinality(p_source_uris), 0) = 0
        or cardinality(p_source_uris) is distinct from cardinality(p_rows)
        or cardinality(p_source_uris) is distinct from cardinality(p_bytes)
    then
        raise exception 'a batch has one file at least, and a number of rows and bytes for each. Nothing was stored.'
        using errcode = 'DA001';
    end if;
    perform check_instance(p_instance_name);
    if octet_length(p_cursor_from) > 4000 or octet_length(p_cursor_to) > 4000 then
        raise exception 'a cursor has at most 4000 bytes. Nothing was stored.'
        using errcode = 'DA001';
    end if;

    insert into delivery_batch (
        batch_no, source_name, dataset, run_id, instance_name, rows_seen, rows_taken, rows_duplicate, rows_rejected,
        cursor_from, cursor_to, delivered_at
    )
    values (
        p_batch_no,
        p_source_name,
        p_dataset,
        p_run_id,
        p_instance_name,
        coalesce((p_counts ->> 'seen')::bigint, 0),
        coalesce((p_counts ->> 'taken')::bigint, 0),
        coalesce((p_counts ->> 'duplicate')::bigint, 0),
        coalesce((p_counts ->> 'rejected')::bigint, 0),
        p_cursor_from,
        p_cursor_to,
        clock()
    );
    insert into delivery (source_uri, batch_no, subject_key, rows, bytes)
    select
        given.uri,
        p_batch_no,
        given.subject,
        given.rows,
        given.bytes
    from unnest(p_source_uris, p_subject_keys, p_rows, p_bytes) as given (uri, subject, rows, bytes);
    return query
    select
        queued.source_uri,
        queued.queue_id,
        queued.verdict
    from enqueue_requests(
        p_source_uris,
        p_subject_keys,
        null,
        p_instance_name,
        array_fill(jsonb_build_object('dataset', p_dataset), array[cardinality(p_source_uris)])
    ) as queued;
    if p_lane = 'backfill' then
        update ingest_queue as item
        set lane = 'backfill'
        where
            item.source_uri = any(p_source_uris)
            and item.status = 'available';
        -- The rows of these subjects are locked since they were told.
        perform set_turns(queued.subject_key, null, null)
        from unnest(p_subject_keys) as queued (subject_key);
    end if;
end
$$;
comment on function disarray.record_deliveries(bigint, text, text, uuid, text, jsonb, text, text, text[], text[], bigint[], bigint[], text) is
    'Store a batch and its files and queue them to be read, in the backfill lane where that is history. Checks no lease: it belongs into the transaction in which the source is '
    'advanced, or its events are marked, after their rows are locked.';

create function disarray.find_unknown_deliveries(p_source_uris text[])
returns setof text
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select wanted.uri
from unnest(p_source_uris) as wanted (uri)
where
    not exists (select from delivery as known where known.source_uri = wanted.uri)
    and not exists (select from staged_delivery as staged where staged.source_uri = wanted.uri)
$$;
comment on function disarray.find_unknown_deliveries(text[]) is 'Those of some files that no batch ever named, and no resync staged.';

create function disarray.list_batches(p_source_name text default null, p_limit integer default 100)
returns table (
    batch_no bigint,
    source_name text,
    dataset text,
    run_id uuid,
    instance_name text,
    rows_seen bigint,
    rows_taken bigint,
    rows_duplicate bigint,
    rows_rejected bigint,
    files bigint,
    bytes bigint,
    cursor_from text,
    cursor_to text,
    delivered_at timestamptz
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    batch.batch_no,
    batch.source_name,
    batch.dataset,
    batch.run_id,
    batch.instance_name,
    batch.rows_seen,
    batch.rows_taken,
    batch.rows_duplicate,
    batch.rows_rejected,
    file.files,
    file.bytes,
    batch.cursor_from,
    batch.cursor_to,
    batch.delivered_at
from delivery_batch as batch
cross join lateral (
    select
        count(*) as files,
        coalesce(sum(each.bytes), 0)::bigint as bytes
    from delivery as each
    where each.batch_no = batch.batch_no
) as file
where
    batch.source_name = p_source_name
    or p_source_name is null
order by batch.batch_no desc
limit least(p_limit, 10000)
$$;
comment on function disarray.list_batches(text, integer) is 'The newest batches, of one source where it is named.';

create function disarray.list_spent_deliveries(p_keep interval, p_limit integer default 1000)
returns table (source_uri text, bytes bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.source_uri,
    file.bytes
from delivery as file
inner join delivery_batch as batch on file.batch_no = batch.batch_no
inner join file_info as known on file.source_uri = known.source_uri
where
    file.deleted_at is null
    and coalesce(file.superseded_at, batch.delivered_at) < clock() - p_keep
    and (known.status = 'processed' or file.superseded_at is not null)
    -- Sealed segments change no more. A file that was wholly rejected has none: another definition may yet read it.
    and (
        file.superseded_at is not null
        or exists (
            select
            from fragment as part
            where
                part.source_uri = file.source_uri
                and part.state = 'sealed'
        )
    )
    and not exists (
        select
        from fragment as part
        where
            part.source_uri = file.source_uri
            and (part.state not in ('sealed', 'dropped') or part.withdrawn_state is not null)
    )
    and not exists (select from ingest_queue as item where item.source_uri = file.source_uri)
order by file.source_uri
limit least(p_limit, 10000)
$$;
comment on function disarray.list_spent_deliveries(interval, integer) is
    'Files of the landing folder of which nothing counts or waits any more: delivered so long ago, and their segments are sealed; or a resync took '
    'their place so long ago.';

create function disarray.note_deleted_deliveries(p_source_uris text[])
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
update delivery as file
set deleted_at = clock()
where
    file.source_uri = any(p_source_uris)
    and file.deleted_at is null
$$;
comment on function disarray.note_deleted_deliveries(text[]) is 'Write down that the files are deleted; before they are, so that none is gone unnoted.';
