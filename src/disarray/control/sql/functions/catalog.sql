-- What counts: what a worker looks up of it before it reads, plans and scans, and what a commit makes of it.

create function disarray.load_fingerprints(p_source_uris text[])
returns table (source_uri text, fingerprint bytea)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.source_uri,
    known.fingerprint
from file_fingerprint as known
where known.source_uri = any(p_source_uris)
$$;
comment on function disarray.load_fingerprints(text[]) is 'What is remembered of the bytes of some files.';

create function disarray.find_same_content(p_dataset text, p_subject_key text, p_content_hashes text[])
returns table (content_hash text, source_uri text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.content_hash,
    known.source_uri
from file_fingerprint as known
inner join file_info as file on known.source_uri = file.source_uri
where
    known.content_hash = any(p_content_hashes)
    and file.dataset = p_dataset
    and file.subject_key = p_subject_key
    and exists (
        select
        from fragment as stored
        where
            stored.source_uri = known.source_uri
            and stored.dataset = p_dataset
            and stored.subject_key = p_subject_key
            -- One that was removed may have counted in segments that were sealed since: it no longer says all it said.
            and (stored.state in ('active', 'parked', 'rejected') or stored.withdrawn_state is not null)
    )
order by known.source_uri collate "C"
$$;
comment on function disarray.find_same_content(text, text, text[]) is
    'Files of a subject whose readings are in and whose bytes are the same: their fragments can be shared instead of kept twice.';

create function disarray.load_file_fragments(p_source_uris text[])
returns setof disarray.fragment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from fragment as known
where
    known.source_uri = any(p_source_uris)
    and known.state <> 'dropped'
order by known.fragment_id
$$;
comment on function disarray.load_file_fragments(text[]) is
    'All that some files say now: active, parked, rejected, or counted in segments that were sealed since.';

create function disarray.load_withdrawn_fragments(p_source_uris text[])
returns setof disarray.fragment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from fragment as known
where
    known.source_uri = any(p_source_uris)
    and known.withdrawn_state is not null
order by known.fragment_id
$$;
comment on function disarray.load_withdrawn_fragments(text[]) is
    'What some files said before they were blacklisted: it counts for nothing, and comes back when they are allowed again.';

create function disarray.load_arrivals(p_source_uris text[])
returns table (source_uri text, arrival bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.source_uri,
    file.arrival
from file_info as file
where file.source_uri = any(p_source_uris)
union all
-- What a resync staged arrived with its beginning.
select
    staged.source_uri,
    generation.arrival
from staged_delivery as staged
inner join resync as generation on staged.job_id = generation.job_id
where staged.source_uri = any(p_source_uris)
$$;
comment on function disarray.load_arrivals(text[]) is 'The numbers of some files in the order of first announcements.';

create function disarray.load_segment_fragments(p_dataset text, p_subject_key text, p_segments bigint[])
returns setof disarray.fragment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from fragment as known
where
    known.dataset = p_dataset
    and known.subject_key = p_subject_key
    and known.segment_us = any(p_segments)
    and known.state = 'active'
order by known.fragment_id
$$;
comment on function disarray.load_segment_fragments(text, text, bigint[]) is 'All that is active in some segments of a subject.';

create function disarray.load_lake_checksums(p_paths text[])
returns table (path text, checksum text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.path,
    file.checksum
from lake_file as file
where file.path = any(p_paths)
$$;
comment on function disarray.load_lake_checksums(text[]) is
    'The checksums of whole files of the lake: what fragments without a digest are recognized by.';

create function disarray.find_sealed_segments(p_dataset text, p_subject_key text, p_segments bigint[])
returns table (segment_us bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.segment_us
from segment as known
where
    known.dataset = p_dataset
    and known.subject_key = p_subject_key
    and known.segment_us = any(p_segments)
    and known.sealed_at is not null
$$;
comment on function disarray.find_sealed_segments(text, text, bigint[]) is
    'Those of some segments whose readings are no longer kept: what comes for them is parked.';

create function disarray.load_segments(p_dataset text, p_subject_key text, p_from_us bigint, p_to_us bigint)
returns setof disarray.segment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from segment as known
where
    known.dataset = p_dataset
    and known.subject_key = p_subject_key
    and known.segment_us >= p_from_us
    and known.segment_us <= p_to_us
order by known.segment_us
$$;
comment on function disarray.load_segments(text, text, bigint, bigint) is 'The segments of a subject that start in a span, both ends included.';

create function disarray.high_event_us(p_dataset text, p_subject_key text)
returns bigint
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select newest.last_us
from segment as newest
where
    newest.dataset = p_dataset
    and newest.subject_key = p_subject_key
order by newest.segment_us desc
limit 1
$$;
comment on function disarray.high_event_us(text, text) is 'The newest reading of a subject, from which its horizon is counted; NULL where it has none.';

create function disarray.load_kept_fragments(p_dataset text, p_subject_key text, p_segments bigint[])
returns setof disarray.fragment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from fragment as known
where
    known.dataset = p_dataset
    and known.subject_key = p_subject_key
    and known.segment_us = any(p_segments)
    and (known.state in ('active', 'parked', 'rejected') or known.withdrawn_state is not null)
order by known.fragment_id
$$;
comment on function disarray.load_kept_fragments(text, text, bigint[]) is
    'All that is active, parked, rejected or withdrawn in some segments of a subject: whoever moves row groups has to know all that name them.';

create function disarray.load_subject_fragments(p_subject_key text)
returns setof disarray.fragment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from fragment as known
where
    known.subject_key = p_subject_key
    and known.state <> 'dropped'
order by known.fragment_id
$$;
comment on function disarray.load_subject_fragments(text) is 'All that is active, parked or sealed of a subject, in every dataset.';

create function disarray.changed_segments(p_subject_key text, p_dataset json)
returns table (segment_us bigint)
language plpgsql
stable
as $$
declare
    -- Looked up once: a plan that is kept would read the whole document again for each segment.
    v_name constant text := p_dataset ->> 'dataset';
    v_scan_version constant text := p_dataset ->> 'scan_version';
begin
    return query
    select scanned.segment_us
    from json_to_recordset(p_dataset -> 'segments')
        as scanned (segment_us bigint, segment_end_us bigint, revision bigint, readings bigint, digest text)
    left join disarray.segment as known
        on
            known.dataset = v_name
            and known.subject_key = p_subject_key
            and scanned.segment_us = known.segment_us
    where
        -- Nothing before and nothing now is no change.
        (scanned.readings > 0 or known.segment_us is not null)
        -- A segment of another length is another one, also where it has the same readings: it lies in another block.
        and (known.digest, known.scan_version, known.segment_end_us) is distinct from (
            case when scanned.readings > 0 then scanned.digest end,
            case when scanned.readings > 0 then v_scan_version end,
            case when scanned.readings > 0 then scanned.segment_end_us end
        );
end
$$;
comment on function disarray.changed_segments(text, json) is 'Scanned segments in which a reading, a definition or their length really changed: equal content is no news.';

-- Summaries and rollup parts come apart from the rest: a document is read from its beginning at every look into it, and
-- these are nearly all of it.
create function disarray.put_segments(p_run_id uuid, p_subject_key text, p_dataset json, p_rows json)
returns bigint
language plpgsql
as $$
declare
    v_name constant text := p_dataset ->> 'dataset';
    v_scan_version constant text := p_dataset ->> 'scan_version';
    v_changed constant bigint[] := array(
        select changed.segment_us
        from disarray.changed_segments(p_subject_key, p_dataset) as changed
    );
    v_stale record;
begin
    select
        planned.segment_us,
        planned.revision as planned_revision,
        coalesce(known.revision, 0) as found_revision
    into v_stale
    from json_to_recordset(p_dataset -> 'segments') as planned (segment_us bigint, revision bigint)
    left join disarray.segment as known
        on
            known.dataset = v_name
            and known.subject_key = p_subject_key
            and planned.segment_us = known.segment_us
    where planned.revision <> coalesce(known.revision, 0)
    limit 1;
    if found then
        raise exception 'segment % of %/% was planned at revision % and is now at %. Nothing was changed.',
            v_stale.segment_us, v_name, p_subject_key, v_stale.planned_revision, v_stale.found_revision
        using errcode = 'DA006', hint = 'Plan again.';
    end if;

    delete from disarray.segment_summary as summary
    where
        summary.dataset = v_name
        and summary.subject_key = p_subject_key
        and summary.segment_us = any(v_changed);
    delete from disarray.rollup_block as block
    where
        block.dataset = v_name
        and block.subject_key = p_subject_key
        and block.segment_us = any(v_changed);
    delete from disarray.segment as emptied
    using json_to_recordset(p_dataset -> 'segments') as scanned (segment_us bigint, readings bigint)
    where
        emptied.dataset = v_name
        and emptied.subject_key = p_subject_key
        and emptied.segment_us = scanned.segment_us
        and scanned.readings = 0;
    delete from disarray.conflict as settled
    using json_to_recordset(p_dataset -> 'segments') as scanned (segment_us bigint)
    where
        settled.dataset = v_name
        and settled.subject_key = p_subject_key
        and settled.segment_us = scanned.segment_us;
    insert into disarray.conflict (dataset, subject_key, segment_us, winner_uri, loser_uri, conflicts, examples)
    select
        v_name,
        p_subject_key,
        found.segment_us,
        found.winner_uri,
        found.loser_uri,
        found.conflicts,
        found.examples
    from json_to_recordset(p_dataset -> 'conflicts') as found (
        segment_us bigint, winner_uri text, loser_uri text, conflicts bigint, examples jsonb
    );
    insert into disarray.segment as known (
        dataset, subject_key, segment_us, segment_end_us, revision, readings, duplicates, conflicts,
        first_us, last_us, digest, scan_version, run_id, table_digest
    )
    select
        v_name,
        p_subject_key,
        scanned.segment_us,
        scanned.segment_end_us,
        scanned.revision + 1,
        scanned.readings,
        scanned.duplicates,
        scanned.conflicts,
        scanned.first_us,
        scanned.last_us,
        scanned.digest,
        v_scan_version,
        p_run_id,
        scanned.table_digest
    from json_to_recordset(p_dataset -> 'segments') as scanned (
        segment_us bigint, segment_end_us bigint, revision bigint, readings bigint, duplicates bigint,
        conflicts bigint, first_us bigint, last_us bigint, digest text, table_digest text
    )
    where scanned.readings > 0
    on conflict (dataset, subject_key, segment_us) do update
    set
        segment_end_us = excluded.segment_end_us,
        revision = excluded.revision,
        readings = excluded.readings,
        duplicates = excluded.duplicates,
        conflicts = excluded.conflicts,
        first_us = excluded.first_us,
        last_us = excluded.last_us,
        digest = excluded.digest,
        scan_version = excluded.scan_version,
        run_id = excluded.run_id,
        table_digest = excluded.table_digest;
    perform disarray.put_summaries(p_subject_key, v_name, array(
        select summary
        from json_populate_recordset(null::disarray.scanned_summary, p_rows -> 'metrics') as summary
        where summary.segment_us = any(v_changed)
    ));
    perform disarray.put_rollups(p_subject_key, v_name, array(
        select scanned
        from json_populate_recordset(null::disarray.scanned_rollup, p_rows -> 'rollups') as scanned
        where scanned.segment_us = any(v_changed)
    ));
    return cardinality(v_changed);
end
$$;
comment on function disarray.put_segments(uuid, text, json, json) is
    'Scanned segments in place of the old ones, if they are still those that were planned on; how many really changed.';

create function disarray.put_files(p_run_id uuid, p_changes json, p_now timestamptz)
returns void
language plpgsql
as $$
begin
    perform disarray.assert_not_superseded(p_changes);
    insert into disarray.lake_file (path, bytes, checksum, run_id, created_at)
    select
        file.path,
        file.bytes,
        file.checksum,
        p_run_id,
        p_now
    from json_to_recordset(p_changes -> 'lake_files') as file (path text, bytes bigint, checksum text)
    -- A batch over several subjects names its files in each commit.
    on conflict (path) do nothing;
    insert into disarray.file_fingerprint (source_uri, fingerprint, content_hash, parse_version, run_id)
    select
        file.source_uri,
        decode(file.fingerprint, 'base64'),
        file.content_hash,
        file.parse_version,
        p_run_id
    from json_to_recordset(p_changes -> 'fingerprints')
        as file (source_uri text, fingerprint text, content_hash text, parse_version text)
    order by file.source_uri
    on conflict (source_uri) do update
    set
        fingerprint = excluded.fingerprint,
        content_hash = excluded.content_hash,
        parse_version = excluded.parse_version,
        run_id = excluded.run_id;
    delete from disarray.rejected_row as old
    using json_to_recordset(p_changes -> 'rejects') as file (source_uri text, from_position bigint)
    where
        old.source_uri = file.source_uri
        and old.position >= file.from_position;
    insert into disarray.rejected_row (source_uri, position, line, reason, detail, sample, run_id)
    select
        file.source_uri,
        line.position,
        line.line,
        line.reason,
        line.detail,
        line.sample,
        p_run_id
    from json_to_recordset(p_changes -> 'rejects') as file (source_uri text, rows json)
    cross join lateral (
        select count(*) as rows
        from disarray.rejected_row as old
        where old.source_uri = file.source_uri
    ) as kept
    cross join lateral rows from (
        json_to_recordset(file.rows) as (position bigint, line bigint, reason text, detail text, sample text)
    ) with ordinality as line (position, line, reason, detail, sample, place)
    -- Of a file that grows and grows, the first thousand: file_info counts the others.
    where kept.rows + line.place <= 1000
    on conflict do nothing;
    -- Files that were read again for a rebuild and have no item of their own; locked with those that have one, by name,
    -- as whoever announces them does.
    if json_array_length(p_changes -> 'read_again') > 0 or json_array_length(p_changes -> 'moved') > 0 then
        perform
        from disarray.file_info as file
        where file.source_uri in (
            select read.source_uri
            from json_to_recordset(p_changes -> 'read_again') as read (source_uri text)
            union all
            select moved.source_uri
            from json_to_recordset(p_changes -> 'moved') as moved (source_uri text)
            union all
            select item.source_uri
            from json_to_recordset(p_changes -> 'completions') as done (queue_id bigint)
            inner join disarray.ingest_queue as item on done.queue_id = item.queue_id
        )
        order by file.source_uri
        for update;
    end if;
    update disarray.file_info as file
    set
        status = case
            when file.status in ('blacklisted', 'pending') then file.status
            when exists (
                select
                from json_array_elements(p_changes -> 'datasets') as changed
                cross join lateral json_to_recordset(changed.value -> 'added') as added (source_uri text, state text)
                where
                    added.source_uri = file.source_uri
                    and added.state = 'parked'
            ) then 'parked'
            else 'processed'
        end,
        parked_hash = null,
        parked_at = null,
        content_hash = read.result ->> 'content_hash',
        announced_hash = case
            when file.announced_hash is not distinct from file.content_hash then read.result ->> 'content_hash'
            else file.announced_hash
        end,
        parse_version = read.result ->> 'parse_version',
        logical_start = (read.result ->> 'logical_start')::timestamptz,
        logical_end = (read.result ->> 'logical_end')::timestamptz,
        metadata = disarray.merged_metadata(file.metadata, read.result)
    from json_to_recordset(p_changes -> 'read_again') as read (source_uri text, result jsonb)
    where file.source_uri = read.source_uri;
end
$$;
comment on function disarray.put_files(uuid, json, timestamptz) is 'What a commit knows of files: where fragments lie, fingerprints, rejected rows.';
