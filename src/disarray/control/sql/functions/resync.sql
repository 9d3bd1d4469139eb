-- Resyncs: a generation of deliveries is staged beside the one that counts, and takes its place subject by subject.

create function disarray.begin_resync(
    p_job_id bigint,
    p_source_name text,
    p_table_name text,
    p_dataset text,
    p_key_end jsonb,
    p_server text,
    p_description text
)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_other bigint;
    v_batch_no bigint;
begin
    if (octet_length(p_key_end::text) > 100000) is true then
        raise exception 'a key has at most 100000 bytes. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    -- Waits for a batch that is being committed: it is of the generation before.
    perform
    from source_state as state
    where
        state.pipeline_name = p_source_name
        and state.table_name = p_table_name
    for update;
    if not found then
        raise exception 'source % was never read: there is nothing to compare with its table. Nothing was changed.', p_source_name
        using errcode = 'DA001', hint = format('Run: disarray source run %s --once', p_source_name);
    end if;
    if exists (
        select
        from source_load as load
        where
            load.pipeline_name = p_source_name
            and load.table_name = p_table_name
            and load.state = 'running'
    ) then
        raise exception 'the initial load of source % is under way. Nothing was changed.', p_source_name
        using errcode = 'DA001', hint = format('Resync it when the load is done: disarray source show %s', p_source_name);
    end if;
    select known.job_id
    into v_other
    from resync as known
    inner join backfill_job as job on known.job_id = job.job_id
    where
        known.source_name = p_source_name
        and known.job_id <> p_job_id
        and job.state not in ('done', 'cancelled')
    limit 1;
    if found then
        raise exception 'source % is being resynced by backfill job %. Nothing was changed.', p_source_name, v_other
        using errcode = 'DA001', hint = format('disarray backfill resume %s goes on with it, disarray backfill cancel %s gives it up.', v_other, v_other);
    end if;
    -- Who pulls right now has a snapshot of before, and would deliver it under a greater number: it loses its turn, and takes
    -- the same rows again.
    update source_state as state
    set
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null,
        next_pull_at = case when state.instance_name is null then state.next_pull_at else v_now end
    where
        state.pipeline_name = p_source_name
        and state.table_name = p_table_name;
    -- What an earlier one left unfinished would bring back what this one finds gone.
    perform drop_generation(known.job_id)
    from resync as known
    where
        known.source_name = p_source_name
        and known.job_id <> p_job_id;
    v_batch_no := nextval('disarray.batch_seq');
    insert into resync (job_id, source_name, dataset, batch_no, arrival, key_end, readings_before, begun_at, server, description)
    values (
        p_job_id, p_source_name, p_dataset, v_batch_no, nextval('disarray.arrival_seq'), p_key_end, 0, v_now, p_server, p_description
    );
    update resync as known
    set readings_before = (
        select coalesce(sum(part.readings), 0)
        from segment as part
        where
            part.dataset = p_dataset
            and part.subject_key in (select file.subject_key from former_deliveries(p_job_id) as file)
    )
    where known.job_id = p_job_id;
    return v_batch_no;
end
$$;
comment on function disarray.begin_resync(bigint, text, text, text, jsonb, text, text) is
    'Divide what a source delivered: up to the number that is returned it is the generation before, what comes later was pulled from a newer '
    'snapshot than any of that, and wins over the new generation.';

create function disarray.find_resync(p_job_id bigint)
returns table (
    batch_no bigint,
    key_end jsonb,
    server text,
    description text,
    is_verified boolean,
    open_chunks bigint,
    dead_chunks bigint,
    dead_error text
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.batch_no,
    known.key_end,
    known.server,
    known.description,
    known.verified_at is not null,
    counted.open,
    counted.dead,
    counted.error
from (
    select
        count(*) filter (where chunk.state in ('waiting', 'claimed')) as open,
        count(*) filter (where chunk.state = 'dead') as dead,
        min(chunk.last_error) filter (where chunk.state = 'dead') as error
    from backfill_chunk as chunk
    where chunk.job_id = p_job_id
) as counted
left join resync as known on known.job_id = p_job_id
$$;
comment on function disarray.find_resync(bigint) is
    'How far a resync is: its generation, NULL before it has begun, and how many of the chunks that were cut have not ended, or are dead.';

create function disarray.stage_deliveries(
    p_job_id bigint,
    p_chunk_no bigint,
    p_source_uris text[],
    p_subject_keys text[],
    p_rows bigint[],
    p_bytes bigint[]
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    -- One that is given up meanwhile must not leave what nobody deletes. Every decision locks this row first, and so does
    -- the end of a chunk: the row of the job, locked here, would have one wait for the other.
    perform
    from backfill_pace as pace
    where pace.job_id = p_job_id
    for update;
    if not exists (
        select
        from backfill_job as job
        where
            job.job_id = p_job_id
            and job.state not in ('done', 'cancelled')
    ) then
        raise exception 'backfill job % was given up. Nothing was changed.', coalesce(p_job_id::text, 'NULL')
        using errcode = 'DA002';
    end if;
    delete from staged_delivery as former
    where
        former.job_id = p_job_id
        and former.chunk_no = p_chunk_no;
    insert into staged_delivery (source_uri, job_id, chunk_no, subject_key, rows, bytes)
    select
        given.uri,
        p_job_id,
        p_chunk_no,
        given.subject,
        given.rows,
        given.bytes
    from unnest(p_source_uris, p_subject_keys, p_rows, p_bytes) as given (uri, subject, rows, bytes);
end
$$;
comment on function disarray.stage_deliveries(bigint, bigint, text[], text[], bigint[], bigint[]) is
    'Name the files of a chunk, in the transaction that ends it. They count for nothing, and no sweep takes them for orphans.';

create function disarray.refuse_staged(p_source_uris text[])
returns void
language plpgsql
as $$
declare
    v_uri text;
begin
    select staged.source_uri
    into v_uri
    from disarray.staged_delivery as staged
    where staged.source_uri = any(p_source_uris)
    limit 1;
    if found then
        raise exception '% was staged by a resync that is under way. Nothing was changed.', quote_literal(left(v_uri, 200))
        using errcode = 'DA001', hint = 'It counts when its subject is swapped, with what it takes the place of; decide about it then.';
    end if;
end
$$;
comment on function disarray.refuse_staged(text[]) is
    'Refuse to take a file of a generation that does not count yet for any file: it would count beside the generation before, and could not be swapped.';

create function disarray.list_staged_deliveries(p_job_id bigint, p_chunk_no bigint)
returns table (source_uri text, subject_key text, rows bigint, bytes bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    staged.source_uri,
    staged.subject_key,
    staged.rows,
    staged.bytes
from staged_delivery as staged
where
    staged.job_id = p_job_id
    and staged.chunk_no = p_chunk_no
order by staged.source_uri
$$;
comment on function disarray.list_staged_deliveries(bigint, bigint) is 'The files of a chunk of a resync that do not count yet.';

create function disarray.next_staged_chunk(p_job_id bigint, p_after numeric)
returns table (chunk_no bigint, place numeric, state text, cursor_from text[], cursor_to text[], rows bigint, checksum text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    chunk.chunk_no,
    chunk.place,
    chunk.state::text,
    chunk.cursor_from,
    chunk.cursor_to,
    chunk.rows_after,
    chunk.checksum
from backfill_chunk as chunk
where
    chunk.job_id = p_job_id
    and chunk.cursor_to[1] = 'read'
    and (p_after is null or chunk.place > p_after)
order by chunk.place
limit 1
$$;
comment on function disarray.next_staged_chunk(bigint, numeric) is 'The next chunk of a resync that reads a stretch of the table, behind a place.';

create function disarray.repeat_staged_chunk(
    p_job_id bigint,
    p_chunk_no bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_repeated_no bigint,
    p_error text
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    -- Who was away for longer than its lease finds staged files gone that were swapped meanwhile.
    perform assert_backfill_chunk_held(p_job_id, p_chunk_no, p_instance_name, p_incarnation, p_fence);
    update backfill_chunk as chunk
    set
        state = 'waiting',
        attempts = 0,
        failures = chunk.failures + 1,
        available_at = clock(),
        last_error = left(p_error, 4000),
        rows_written = null,
        rows_read_again = null,
        rows_after = null,
        checksum = null,
        ended_at = null
    where
        chunk.job_id = p_job_id
        and chunk.chunk_no = p_repeated_no
        and chunk.cursor_to[1] = 'read'
        and chunk.state = 'done';
end
$$;
comment on function disarray.repeat_staged_chunk(bigint, bigint, text, bigint, bigint, bigint, text) is
    'Let a chunk of a resync be read once more, because what it staged is not what it read: said by who holds the chunk that compares it.';

create function disarray.former_deliveries(p_job_id bigint)
returns table (source_uri text, subject_key text)
language sql
stable
as $$
select
    file.source_uri,
    file.subject_key
from disarray.resync as known
inner join disarray.delivery_batch as batch
    on
        known.source_name = batch.source_name
        and known.dataset = batch.dataset
        and known.batch_no > batch.batch_no
inner join disarray.delivery as file on batch.batch_no = file.batch_no
where
    known.job_id = p_job_id
    and file.superseded_at is null
$$;
comment on function disarray.former_deliveries(bigint) is 'What a source delivered before its resync began, as far as no generation has taken its place.';

create function disarray.former_deliveries_of(p_job_id bigint, p_subject_key text)
returns setof text
language sql
stable
as $$
select file.source_uri
from (
    select
        known.source_uri,
        known.batch_no
    from disarray.delivery as known
    where
        known.subject_key = p_subject_key
        and known.superseded_at is null
    -- Its own deliveries first, whatever the planner thinks of the batches, of which there are more.
    offset 0
) as file
inner join disarray.delivery_batch as batch on file.batch_no = batch.batch_no
inner join disarray.resync as generation
    on
        batch.source_name = generation.source_name
        and batch.dataset = generation.dataset
        and batch.batch_no < generation.batch_no
where generation.job_id = p_job_id
$$;
comment on function disarray.former_deliveries_of(bigint, text) is 'The same of one subject, at the cost of its own deliveries.';

create function disarray.measure_swap(p_job_id bigint)
returns table (
    subjects bigint,
    subjects_without_rows bigint,
    readings_before bigint,
    readings_gone bigint,
    rows_read bigint,
    rows_staged bigint,
    lost_chunks bigint
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
with former as (
    select distinct file.subject_key
    from former_deliveries(p_job_id) as file
),

fresh as (
    select
        staged.subject_key,
        sum(staged.rows) as rows
    from staged_delivery as staged
    where staged.job_id = p_job_id
    group by staged.subject_key
),

pulled as (
    select
        file.subject_key,
        sum(file.rows) as rows
    from resync as known
    inner join delivery_batch as batch
        on
            known.source_name = batch.source_name
            and known.dataset = batch.dataset
            and known.batch_no < batch.batch_no
    inner join delivery as file on batch.batch_no = file.batch_no
    where known.job_id = p_job_id
    group by file.subject_key
),

subject_rows as (
    select
        coalesce(former.subject_key, fresh.subject_key) as subject_key,
        coalesce(fresh.rows, 0) as rows_staged,
        coalesce(pulled.rows, 0) as rows_pulled,
        (
            select coalesce(sum(known.readings), 0)
            from segment as known
            where
                known.dataset = (select own.dataset from resync as own where own.job_id = p_job_id)
                and known.subject_key = former.subject_key
        ) as readings
    from former
    full join fresh on former.subject_key = fresh.subject_key
    left join pulled on coalesce(former.subject_key, fresh.subject_key) = pulled.subject_key
),

chunks as (
    select
        coalesce(sum(known.rows_after) filter (where known.cursor_to[1] = 'read'), 0)::bigint as rows,
        count(*) filter (where known.cursor_from is distinct from known.former_to) as lost
    from (
        select
            chunk.rows_after,
            chunk.cursor_from,
            chunk.cursor_to,
            lag(chunk.cursor_to) over (order by chunk.place) as former_to
        from backfill_chunk as chunk
        where chunk.job_id = p_job_id
    ) as known
)

select
    count(found.subject_key),
    count(*) filter (where found.rows_staged + found.rows_pulled = 0),
    totals.readings,
    -- A subject that has more rows than before makes up for none that has fewer. What was pulled since may be the same rows
    -- again and again, and hide that: so all of them together are compared as well.
    greatest(
        totals.readings - coalesce(sum(found.rows_staged), 0)::bigint,
        coalesce(sum(greatest(found.readings - found.rows_pulled - found.rows_staged, 0)), 0)::bigint
    ),
    (select chunks.rows from chunks),
    coalesce(sum(found.rows_staged), 0)::bigint,
    (select chunks.lost from chunks)
from (
    -- What counted then, or by now: when it began, what had been pulled may not have been read yet.
    select greatest(
        (select known.readings_before from resync as known where known.job_id = p_job_id),
        (select coalesce(sum(each.readings - each.rows_pulled), 0)::bigint from subject_rows as each)
    ) as readings
) as totals
left join subject_rows as found on true
group by totals.readings
$$;
comment on function disarray.measure_swap(bigint) is
    'What the swap of a resync would do: how many subjects it has, how many of them the table has no row of any more, how many readings of all of '
    'them counted without what was pulled since it began, and how many of these would go at least; how many rows were read and are staged, and '
    'chunks that begin where none ends.';

create function disarray.verify_resync(p_job_id bigint)
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
update resync as known
set verified_at = clock()
where
    known.job_id = p_job_id
    and known.verified_at is null
$$;
comment on function disarray.verify_resync(bigint) is 'Let the subjects of a resync be swapped, in the transaction that cuts the first of these chunks.';

create function disarray.next_swapped_subject(p_job_id bigint, p_after text)
returns table (subject_key text, rows bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    due.subject_key,
    (
        select coalesce(sum(staged.rows), 0)::bigint
        from staged_delivery as staged
        where
            staged.job_id = p_job_id
            and staged.subject_key = due.subject_key
    )
from (
    (
        select staged.subject_key
        from staged_delivery as staged
        where
            staged.job_id = p_job_id
            and staged.subject_key > coalesce(p_after, '')
        order by staged.subject_key
        limit 1
    )
    union all
    (
        select file.subject_key
        from (
            select
                known.subject_key,
                known.batch_no
            from delivery as known
            where
                known.subject_key > coalesce(p_after, '')
                and known.superseded_at is null
            order by known.subject_key
            offset 0
        ) as file
        -- Asked row by row until the first: a join would be of all of them.
        where (
            select true
            from delivery_batch as batch
            inner join resync as generation
                on
                    batch.source_name = generation.source_name
                    and batch.dataset = generation.dataset
                    and batch.batch_no < generation.batch_no
            where
                batch.batch_no = file.batch_no
                and generation.job_id = p_job_id
        )
        order by file.subject_key
        limit 1
    )
) as due
order by due.subject_key
limit 1
$$;
comment on function disarray.next_swapped_subject(bigint, text) is 'The next subject behind another that has not been swapped, and how many rows its new generation has.';

create function disarray.queue_resync(p_job_id bigint, p_subject_key text)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_dataset constant text := (select known.dataset from resync as known where known.job_id = p_job_id and known.verified_at is not null);
    v_queue_id bigint;
begin
    if v_dataset is null then
        raise exception 'backfill job % has no generation that was verified. Nothing was changed.', coalesce(p_job_id::text, 'NULL')
        using errcode = 'DA001';
    end if;
    insert into ingest_queue as waiting (kind, lane, subject_key, dataset, reason, metadata, enqueued_at, available_at)
    values ('resync', 'backfill', p_subject_key, v_dataset, 'backfill', jsonb_build_object('job_id', p_job_id), v_now, v_now)
    on conflict (subject_key, kind, dataset, lane, status) where source_uri is null do update
    set
        available_at = least(waiting.available_at, excluded.available_at),
        metadata = excluded.metadata,
        retry_count = 0
    returning waiting.queue_id into v_queue_id;
    insert into ingest_event (occurred_at, event_type, subject_key, queue_id, kind, reason, metadata)
    values (
        v_now, 'enqueued', p_subject_key, v_queue_id, 'resync', 'backfill',
        jsonb_build_object('dataset', v_dataset, 'job_id', p_job_id)
    );
    perform call_turns(array[p_subject_key], 'backfill', v_now);
end
$$;
comment on function disarray.queue_resync(bigint, text) is 'Queue the order that lets the new generation of a subject take the place of the one before.';

create function disarray.resync_progress(p_job_id bigint, p_subject_key text, p_since timestamptz)
returns table (is_pending boolean, is_queued boolean, is_claimed boolean, is_given_up boolean, is_replaced boolean, last_error text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    exists (
        select
        from staged_delivery as staged
        where
            staged.job_id = p_job_id
            and staged.subject_key = p_subject_key
    )
    or exists (select from former_deliveries_of(p_job_id, p_subject_key)),
    exists (
        select
        from ingest_queue as item
        where
            item.source_uri is null
            and item.subject_key = p_subject_key
            and item.kind = 'resync'
            and (item.metadata ->> 'job_id')::bigint = p_job_id
    ),
    exists (
        select
        from ingest_queue as item
        where
            item.source_uri is null
            and item.subject_key = p_subject_key
            and item.kind = 'resync'
            and item.status = 'claimed'
            and (item.metadata ->> 'job_id')::bigint = p_job_id
    ),
    not exists (
        select
        from resync as known
        where
            known.job_id = p_job_id
            and known.verified_at is not null
    ),
    exists (
        select
        from resync as known
        inner join resync as later
            on
                known.source_name = later.source_name
                and known.batch_no < later.batch_no
        where known.job_id = p_job_id
    ),
    newest_failure(p_subject_key, 'resync', p_since)
$$;
comment on function disarray.resync_progress(bigint, text, timestamptz) is
    'Whether a subject still has the generation before, whether an order that swaps it is queued, whether a worker has it, whether none will be any '
    'more, whether another resync of the source has begun since, and why one failed since an instant.';

create function disarray.load_swap(p_job_id bigint, p_subject_key text)
returns table (dataset text, source_uri text, is_staged boolean, rows bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
with due as (
    select
        known.job_id,
        known.dataset
    from resync as known
    inner join backfill_job as job on known.job_id = job.job_id
    where
        known.job_id = p_job_id
        and known.verified_at is not null
        and job.state not in ('done', 'cancelled')
)

select
    due.dataset,
    staged.source_uri,
    true,
    staged.rows
from due
inner join staged_delivery as staged on due.job_id = staged.job_id
where staged.subject_key = p_subject_key
union all
select
    due.dataset,
    file.source_uri,
    false,
    0
from due
cross join former_deliveries_of(p_job_id, p_subject_key) as file (source_uri)
order by 2
$$;
comment on function disarray.load_swap(bigint, text) is
    'The files of a subject that are to count, and those whose place they take; none where the resync was given up.';

create function disarray.find_superseded_deliveries(p_source_uris text[])
returns setof text
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select file.source_uri
from delivery as file
where
    file.source_uri = any(p_source_uris)
    and file.superseded_at is not null
$$;
comment on function disarray.find_superseded_deliveries(text[]) is 'Those of some files in whose place a generation of a resync counts.';

create function disarray.assert_not_superseded(p_changes json)
returns void
language plpgsql
as $$
declare
    v_uri text;
begin
    select file.source_uri
    into v_uri
    from json_to_recordset(p_changes -> 'fingerprints') as read (source_uri text)
    inner join disarray.delivery as file on read.source_uri = file.source_uri
    where file.superseded_at is not null
    limit 1;
    if found then
        raise exception 'a resync took the place of % meanwhile. Nothing was changed.', quote_literal(left(v_uri, 200))
        using errcode = 'DA006', hint = 'Plan again.';
    end if;
end
$$;
comment on function disarray.assert_not_superseded(json) is 'Refuse a commit that would take in what a generation of a resync took the place of.';

create function disarray.swap_generation(p_subject_key text, p_changes json, p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_swap record;
    v_generation disarray.resync;
    v_uris text[];
    v_former text[];
    v_rows bigint;
begin
    for v_swap in
        select given.*
        from json_to_recordset(p_changes -> 'swaps') as given (job_id bigint, dataset text, staged json, former json)
    loop
        -- Whoever gives the job up waits for this commit, or comes before it.
        perform
        from disarray.backfill_job as job
        where
            job.job_id = v_swap.job_id
            and job.state not in ('done', 'cancelled')
        for share;
        if not found then
            raise exception 'the resync by backfill job % was given up. Nothing was changed.', v_swap.job_id
            using errcode = 'DA006', hint = 'Plan again.';
        end if;
        select known.*
        into v_generation
        from disarray.resync as known
        where
            known.job_id = v_swap.job_id
            and known.dataset = v_swap.dataset
            and known.verified_at is not null;
        if not found or not exists (
            select
            from json_to_recordset(p_changes -> 'completions') as done (queue_id bigint)
            inner join disarray.ingest_queue as item on done.queue_id = item.queue_id
            where
                item.kind = 'resync'
                and item.subject_key = p_subject_key
                and item.dataset = v_swap.dataset
                and (item.metadata ->> 'job_id')::bigint = v_swap.job_id
        ) then
            raise exception 'no order of a verified resync asks for the swap of %. Nothing was changed.', quote_literal(p_subject_key)
            using errcode = 'DA001';
        end if;
        select
            coalesce(array_agg(staged.source_uri order by staged.source_uri), '{}'),
            coalesce(sum(staged.rows), 0)
        into v_uris, v_rows
        from disarray.staged_delivery as staged
        where
            staged.job_id = v_swap.job_id
            and staged.subject_key = p_subject_key;
        v_former := array(
            select file.source_uri
            from disarray.former_deliveries_of(v_swap.job_id, p_subject_key) as file (source_uri)
            order by file.source_uri
        );
        if v_uris <> array(select uri.value from json_array_elements_text(v_swap.staged) as uri (value) order by uri.value)
            or v_former <> array(select uri.value from json_array_elements_text(v_swap.former) as uri (value) order by uri.value)
        then
            raise exception 'the generations of % are not those that were planned. Nothing was changed.', quote_literal(p_subject_key)
            using errcode = 'DA006', hint = 'Plan again.';
        end if;

        if v_uris <> '{}' then
            insert into disarray.delivery_batch as known (
                batch_no, source_name, dataset, run_id, instance_name, rows_seen, rows_taken, rows_duplicate, rows_rejected, delivered_at
            )
            values (
                v_generation.batch_no, v_generation.source_name, v_generation.dataset, gen_random_uuid(),
                'backfill job ' || v_swap.job_id, v_rows, v_rows, 0, 0, p_now
            )
            on conflict (batch_no) do update
            set
                rows_seen = known.rows_seen + excluded.rows_seen,
                rows_taken = known.rows_taken + excluded.rows_taken,
                delivered_at = excluded.delivered_at;
        end if;
        with gone as (
            delete from disarray.staged_delivery as staged
            where
                staged.job_id = v_swap.job_id
                and staged.subject_key = p_subject_key
            returning
                staged.source_uri,
                staged.subject_key,
                staged.rows,
                staged.bytes
        ),

        delivered as (
            insert into disarray.delivery (source_uri, batch_no, subject_key, rows, bytes)
            select
                gone.source_uri,
                v_generation.batch_no,
                gone.subject_key,
                gone.rows,
                gone.bytes
            from gone
            returning source_uri
        )

        insert into disarray.file_info (source_uri, subject_key, dataset, status, first_seen_at, last_seen_at, process_count, arrival)
        select
            delivered.source_uri,
            p_subject_key,
            v_generation.dataset,
            'processed',
            p_now,
            p_now,
            1,
            v_generation.arrival
        from delivered
        order by delivered.source_uri;

        update disarray.delivery as file
        set superseded_at = p_now
        where file.source_uri = any(v_former);
        -- Nothing of it is asked for any more, by whomever.
        delete from disarray.ingest_queue as item
        where
            item.source_uri = any(v_former)
            and item.status = 'available';
        delete from disarray.file_fingerprint as known
        where known.source_uri = any(v_former);
        delete from disarray.rejected_row as known
        where known.source_uri = any(v_former);
        update disarray.fragment as known
        set withdrawn_state = null
        where
            known.source_uri = any(v_former)
            and known.withdrawn_state is not null;
        update disarray.file_info as file
        set
            status = case when file.status = 'blacklisted' then file.status else 'processed' end,
            parked_hash = null,
            parked_at = null,
            failed_at = null,
            failed_request = null,
            metadata = disarray.merged_metadata(file.metadata, jsonb_build_object('outcome', 'superseded', 'superseded_by_job', v_swap.job_id))
        where file.source_uri = any(v_former);
    end loop;
end
$$;
comment on function disarray.swap_generation(text, json, timestamptz) is
    'Let the staged files of a subject be its deliveries, and those of the generation before none any more; whose fragments come and go with the '
    'same commit.';

create function disarray.drop_generation(p_job_id bigint)
returns void
language sql
as $$
delete from disarray.staged_delivery as staged
where staged.job_id = p_job_id;
update disarray.resync as known
set verified_at = null
where
    known.job_id = p_job_id
    and known.verified_at is not null;
$$;
comment on function disarray.drop_generation(bigint) is
    'Forget what a resync staged that was given up: no subject is swapped any more, and the sweep deletes the files.';
