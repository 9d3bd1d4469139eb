-- What is known of files beside their readings, of where they came from and of where they are going, held against itself.

create function disarray.audit_file_records(p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
begin
    return query
    with generation as (
        select
            piece.source_uri,
            piece.generation,
            sum(piece.readings) as readings,
            min(piece.first_us) as first_us,
            max(piece.last_us) as last_us,
            -- Whoever reads what is left of a fragment that was cut knows when that begins and ends.
            bool_or(piece.cut_position is not null or piece.state = 'sealed') as is_partial
        from fragment as piece
        where piece.state <> 'dropped'
        group by
            piece.source_uri,
            piece.generation
    ),

    stored as (
        select distinct on (generation.source_uri) generation.*
        from generation
        order by
            generation.source_uri,
            generation.generation desc
    )

    select
        'files_say_when_their_readings_are',
        file.source_uri,
        format(
            'from %s to %s, and its readings from %s to %s',
            coalesce(file.logical_start::text, 'nowhere'), coalesce(file.logical_end::text, 'nowhere'),
            coalesce(instant_of(stored.first_us)::text, 'nowhere'), coalesce(instant_of(stored.last_us)::text, 'nowhere')
        )
    from file_info as file
    left join stored on file.source_uri = stored.source_uri
    where
        file.status = 'processed'
        and file.metadata ->> 'outcome' = 'processed'
        and case (file.metadata #>> '{lines,kept}')::bigint
            when 0 then file.logical_start is not null or file.logical_end is not null
            when stored.readings
                then
                    not stored.is_partial
                    and (file.logical_start, file.logical_end) is distinct from (instant_of(stored.first_us), instant_of(stored.last_us))
        end
    order by file.source_uri
    limit p_limit;

    return query
    select
        'rejected_lines_are_of_their_file',
        listed.source_uri,
        format(
            '%s rejected lines are kept, %s were counted: %s', listed.lines, coalesce(file.metadata #>> '{lines,rejected}', 'none'),
            coalesce(listed.problem, 'others than these')
        )
    from (
        select
            line.source_uri,
            count(*) as lines,
            min(
                case
                    when line.position < 0 or line.line < 1 then format('line %s at byte %s', line.line, line.position)
                    when line.line <= line.former_line then format('line %s comes after line %s', line.line, line.former_line)
                    when line.run_id is not null and not line.has_run then format('run %s never committed', line.run_id)
                end
            ) as problem
        from (
            select
                every.source_uri,
                every.position,
                every.line,
                every.run_id,
                lag(every.line) over (partition by every.source_uri order by every.position) as former_line,
                exists (select from run where run.run_id = every.run_id) as has_run
            from rejected_row as every
        ) as line
        group by line.source_uri
    ) as listed
    left join file_info as file on listed.source_uri = file.source_uri
    where
        file.source_uri is null
        or listed.problem is not null
        or (
            file.status = 'processed'
            and file.metadata ->> 'outcome' = 'processed'
            and listed.lines <> least((file.metadata #>> '{lines,rejected}')::bigint, 1000)
        )
    order by listed.source_uri
    limit p_limit;

    return query
    select
        'unmatched_files_are_known',
        listed.source_uri,
        'it is listed as one that no dataset takes, and was never taken in'
    from unmatched_file as listed
    where not exists (select from file_info as file where file.source_uri = listed.source_uri)
    order by listed.source_uri
    limit p_limit;

    return query
    select
        'moves_have_two_sides',
        moving.source_uri,
        format(
            '%s %s/%s, stale from %s: %s', case when moving.is_arriving then 'to' else 'from' end,
            moving.dataset, moving.subject_key, moving.stale_from, wrong.what
        )
    from moving_file as moving
    left join file_info as file on moving.source_uri = file.source_uri
    left join lateral (
        select
            count(*) as fragments,
            min(piece.first_us) as first_us
        from fragment as piece
        where
            piece.source_uri = moving.source_uri
            and piece.dataset = moving.dataset
            and piece.subject_key = moving.subject_key
            and piece.state in ('active', 'parked', 'sealed')
            and piece.generation = coalesce(moving.generation, piece.generation)
    ) as held on true
    cross join lateral (
        select concat_ws(
            ', ',
            case when file.source_uri is null then 'nothing is known of the file' end,
            case when not exists (select from dataset_version as known where known.dataset = moving.dataset) then 'there is no such dataset' end,
            case
                when moving.is_arriving and moving.decision is null and file.failed_at is null and not exists (
                    select
                    from ingest_queue as item
                    where item.source_uri = moving.source_uri
                ) then 'nothing is queued that reads it'
            end,
            case when not moving.is_arriving and held.fragments = 0 then 'it says nothing there' end,
            case
                when not moving.is_arriving and moving.stale_from > instant_of(held.first_us)
                    then format('it says something from %s on', instant_of(held.first_us))
            end
        ) as what
    ) as wrong
    where wrong.what <> ''
    order by
        moving.source_uri,
        moving.subject_key
    limit p_limit;
end
$$;
comment on function disarray.audit_file_records(integer) is
    'Explainable: what is shown of a file that its fragments contradict, and moves of which one side is missing.';

create function disarray.audit_deliveries(p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
begin
    return query
    select
        'deliveries_are_read_as_they_were_written',
        delivered.source_uri,
        format('batch %s of %s, %s rows in %s bytes: %s', batch.batch_no, batch.source_name, delivered.rows, delivered.bytes, wrong.what)
    from delivery as delivered
    inner join delivery_batch as batch on delivered.batch_no = batch.batch_no
    left join file_info as file on delivered.source_uri = file.source_uri
    cross join lateral (
        select concat_ws(
            ', ',
            case when file.source_uri is null then 'it was never announced' end,
            -- The number of the batch decides whose reading counts under one key, by the name of the file.
            case
                when strpos(delivered.source_uri, '/' || batch.source_name || '/') = 0
                    or strpos(delivered.source_uri, lpad(batch.batch_no::text, 12, '0')) = 0
                    then 'its name is that of another batch'
            end,
            case when file.dataset = batch.dataset and file.subject_key <> delivered.subject_key then 'it was read for ' || file.subject_key end,
            case
                when not exists (select from dataset_version as known where known.dataset = batch.dataset)
                    then format('there is no dataset %s', batch.dataset)
            end,
            case
                when file.status = 'processed' and (file.metadata ->> 'bytes')::bigint <> delivered.bytes
                    then format('read were %s bytes', file.metadata ->> 'bytes')
            end,
            case
                when file.status = 'processed' and (file.metadata #>> '{lines,seen}')::bigint <> delivered.rows
                    then format('read were %s rows', file.metadata #>> '{lines,seen}')
            end,
            case
                when delivered.deleted_at is not null and exists (
                    select
                    from fragment as piece
                    where
                        piece.source_uri = delivered.source_uri
                        and (piece.state in ('active', 'parked', 'rejected') or piece.withdrawn_state is not null)
                ) then 'it was deleted, and its readings still count or wait'
            end,
            case
                when delivered.superseded_at is not null and exists (
                    select
                    from fragment as piece
                    where
                        piece.source_uri = delivered.source_uri
                        and (piece.state in ('active', 'parked', 'rejected') or piece.withdrawn_state is not null)
                ) then 'a resync took its place, and its readings still count or wait'
            end
        ) as what
    ) as wrong
    where wrong.what <> ''
    order by delivered.source_uri
    limit p_limit;

    return query
    select
        'batches_add_up',
        format('batch %s of %s', batch.batch_no, batch.source_name),
        format('%s rows taken, %s in its files', batch.rows_taken, coalesce(files.rows, 0))
    from delivery_batch as batch
    left join (
        select
            delivered.batch_no,
            sum(delivered.rows) as rows
        from delivery as delivered
        group by delivered.batch_no
    ) as files on batch.batch_no = files.batch_no
    where batch.rows_taken is distinct from files.rows
    union all
    select
        'batches_add_up',
        'source ' || state.pipeline_name,
        format(
            '%s rows in %s batches counted, %s in %s handed over', state.rows_taken, state.batches,
            coalesce(handed.rows_taken, 0), coalesce(handed.batches, 0)
        )
    from (
        select
            known.pipeline_name,
            sum(known.rows_seen) as rows_seen,
            sum(known.rows_taken) as rows_taken,
            sum(known.rows_duplicate) as rows_duplicate,
            sum(known.rows_rejected) as rows_rejected,
            sum(known.batches) as batches
        from (
            select
                read.pipeline_name,
                read.rows_seen,
                read.rows_taken,
                read.rows_duplicate,
                read.rows_rejected,
                read.batches
            from source_state as read
            union all
            select
                load.pipeline_name,
                load.rows_seen,
                load.rows_taken,
                load.rows_duplicate,
                load.rows_rejected,
                load.batches
            from source_load as load
        ) as known
        group by known.pipeline_name
    ) as state
    left join (
        select
            batch.source_name,
            sum(batch.rows_taken) as rows_taken,
            count(*) as batches
        from delivery_batch as batch
        -- What a resync delivered was not pulled.
        where not exists (select from resync as generation where generation.batch_no = batch.batch_no)
        group by batch.source_name
    ) as handed on state.pipeline_name = handed.source_name
    where
        (state.rows_taken, state.batches) is distinct from (coalesce(handed.rows_taken, 0), coalesce(handed.batches, 0))
        or state.rows_seen <> state.rows_taken + state.rows_duplicate + state.rows_rejected
    union all
    select
        'batches_add_up',
        'initial load of source ' || load.pipeline_name,
        format('%s rows counted, %s in its chunks; %s chunks begin where none ends', load.rows_taken, chunks.rows_taken, chunks.gaps)
    from source_load as load
    cross join lateral (
        select
            coalesce(sum(chunk.rows_taken), 0) as rows_taken,
            count(*) filter (
                where chunk.key_from is not null and not exists (
                    select
                    from source_chunk as former
                    where
                        former.load_id = load.load_id
                        and former.key_to = chunk.key_from
                )
            ) as gaps
        from source_chunk as chunk
        where chunk.load_id = load.load_id
    ) as chunks
    where
        load.rows_taken <> chunks.rows_taken
        or chunks.gaps > 0
    union all
    select
        'batches_add_up',
        'source ' || state.pipeline_name,
        format('it stands at %s, and batch %s of the same run went to %s', state.cursor_to, batch.batch_no, batch.cursor_to)
    from source_state as state
    inner join lateral (
        select newest.*
        from delivery_batch as newest
        where newest.source_name = state.pipeline_name
        order by newest.batch_no desc
        limit 1
    ) as batch on state.last_run_id = batch.run_id
    where state.cursor_to <> batch.cursor_to
    order by 2
    limit p_limit;

    return query
    select
        'events_are_where_they_say',
        format('event %s of %s', event.event_id, event.dataset),
        format('%s: %s', event.state, wrong.what)
    from raw_event as event
    left join delivery_batch as batch on event.batch_no = batch.batch_no
    cross join lateral (
        select concat_ws(
            ', ',
            -- A definition may name other fields than the one of when it was sent.
            case
                when event.payload is not null and not exists (
                    select
                    from dataset_version as known
                    where
                        known.dataset = event.dataset
                        and event.event_hash = event_hash(
                            event.payload,
                            array(
                                select field.name
                                from json_array_elements_text(known.definition #> '{dataset,events,id}') with ordinality as field (name, place)
                                order by field.place
                            )
                        )
                ) then 'it is not the event that its hash was made of'
            end,
            case
                when event.state = 'done' and (batch.batch_no is null or batch.dataset <> event.dataset)
                    then format('batch %s has no such events', event.batch_no)
            end
        ) as what
    ) as wrong
    where wrong.what <> ''
    order by event.event_id
    limit p_limit;

    return query
    select
        'events_are_where_they_say',
        format('batch %s of %s', batch.batch_no, batch.source_name),
        format('%s events say that they are in it, it has %s rows', done.events, batch.rows_taken)
    from delivery_batch as batch
    inner join (
        select
            event.batch_no,
            count(*) as events
        from raw_event as event
        where event.state = 'done'
        group by event.batch_no
    ) as done on batch.batch_no = done.batch_no
    -- What was done long ago is forgotten.
    where done.events > batch.rows_taken
    order by batch.batch_no
    limit p_limit;
end
$$;
comment on function disarray.audit_deliveries(integer) is
    'No loss and no double effect between a source and the files that it delivered: batches, rows and events that do not add up.';
