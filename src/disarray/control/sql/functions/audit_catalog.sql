-- What must be true of the catalog at any moment, found from the catalog alone. That the lake holds what the catalog says is
-- looked up there; that it is what the files said, disarray verify proves.

create function disarray.audit_readings(p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
begin
    return query
    select
        'every_line_is_accounted_for',
        file.source_uri,
        (file.metadata -> 'lines')::text
    from file_info as file
    where
        (file.metadata #>> '{lines,seen}')::bigint <> (file.metadata #>> '{lines,kept}')::bigint
        + (file.metadata #>> '{lines,rejected}')::bigint
        + (file.metadata #>> '{lines,blank}')::bigint
        + (file.metadata #>> '{lines,preamble}')::bigint
        + (file.metadata #>> '{lines,waiting}')::bigint
    order by file.source_uri
    limit p_limit;

    return query
    with generation as (
        select
            piece.source_uri,
            piece.generation,
            sum(piece.readings) as readings,
            bool_or(piece.cut_position is not null) as is_cut
        from fragment as piece
        where
            piece.state in ('active', 'parked', 'rejected')
            -- What was read elsewhere and is still to leave is there twice.
            and not exists (
                select
                from moving_file as moving
                where
                    moving.subject_key = piece.subject_key
                    and moving.dataset = piece.dataset
                    and moving.source_uri = piece.source_uri
                    and not moving.is_arriving
            )
        group by
            piece.source_uri,
            piece.generation
    ),

    -- Counted are the lines of the newest generation; the one before it is another file.
    stored as (
        select distinct on (generation.source_uri) generation.*
        from generation
        order by
            generation.source_uri,
            generation.generation desc
    )

    select
        'kept_lines_are_in_fragments',
        file.source_uri,
        format('%s lines kept, %s readings in its fragments', file.metadata #>> '{lines,kept}', coalesce(stored.readings, 0))
    from file_info as file
    left join stored on file.source_uri = stored.source_uri
    where
        file.status = 'processed'
        and file.metadata ->> 'outcome' = 'processed'
        and (file.metadata #>> '{lines,kept}')::bigint > 0
        and case
            -- How many readings are left of a fragment that was cut is known to whoever reads it.
            when stored.is_cut then stored.readings < (file.metadata #>> '{lines,kept}')::bigint
            else coalesce(stored.readings, 0) <> (file.metadata #>> '{lines,kept}')::bigint
        end
        -- What was sealed is no longer kept, and what was said again of it was never added.
        and not exists (
            select
            from fragment as counted
            where
                counted.source_uri = file.source_uri
                and counted.state = 'sealed'
        )
        -- The lines of a file about several subjects are those of its parts: the program adds them up.
        and not (
            stored.readings is null
            and exists (select from file_part as part where part.parent_uri = file.source_uri)
        )
    order by file.source_uri
    limit p_limit;

    return query
    with placed as (
        select
            stored.*,
            max(coalesce(stored.cut_position - 1, stored.last_position)) over (
                partition by stored.source_uri, stored.generation, stored.dataset, stored.segment_us
                order by stored.first_position, stored.fragment_id
                rows between unbounded preceding and 1 preceding
            ) as taken_to
        from fragment as stored
        where
            stored.state in ('active', 'parked')
            -- The subject that a file is still to leave is stale, and known to be.
            and not exists (
                select
                from moving_file as moving
                where
                    moving.subject_key = stored.subject_key
                    and moving.dataset = stored.dataset
                    and moving.source_uri = stored.source_uri
                    and not moving.is_arriving
            )
    )

    select
        'no_line_counts_twice',
        placed.source_uri,
        format('fragment %s begins at byte %s, another of its segment goes to %s', placed.fragment_id, placed.first_position, placed.taken_to)
    from placed
    where placed.first_position <= placed.taken_to
    order by placed.source_uri, placed.fragment_id
    limit p_limit;

    return query
    with stored as (
        select
            piece.dataset,
            piece.subject_key,
            piece.segment_us,
            sum(piece.readings) as readings,
            bool_or(piece.cut_position is not null) as is_cut
        from fragment as piece
        where piece.state = 'active'
        group by
            piece.dataset,
            piece.subject_key,
            piece.segment_us
    )

    select
        'segments_count_what_their_fragments_hold',
        format('%s/%s %s', coalesce(known.dataset, stored.dataset), coalesce(known.subject_key, stored.subject_key), instant_of(coalesce(known.segment_us, stored.segment_us))),
        format('%s readings and %s duplicates, %s readings in its fragments', coalesce(known.readings, 0), coalesce(known.duplicates, 0), coalesce(stored.readings, 0))
    from (select * from segment as unsealed where unsealed.sealed_at is null) as known
    full join stored
        on
            known.dataset = stored.dataset
            and known.subject_key = stored.subject_key
            and known.segment_us = stored.segment_us
    where
        known.segment_us is null
        or stored.segment_us is null
        or known.readings + known.duplicates > stored.readings
        or (not stored.is_cut and known.readings + known.duplicates < stored.readings)
    order by 2
    limit p_limit;

    return query
    select distinct
        'numbers_belong_to_a_segment',
        format('%s/%s %s', part.dataset, part.subject_key, instant_of(part.segment_us)),
        part.what || ' without a segment'
    from (
        select
            summary.dataset,
            summary.subject_key,
            summary.segment_us,
            'metric ' || summary.metric as what
        from segment_metric as summary
        union all
        select
            block.dataset,
            block.subject_key,
            block.segment_us,
            'rollup ' || block.rollup
        from rollup_block as block
    ) as part
    where not exists (
        select
        from segment as known
        where
            known.dataset = part.dataset
            and known.subject_key = part.subject_key
            and known.segment_us = part.segment_us
    )
    order by 2, 3
    limit p_limit;

    return query
    select
        'blocks_span_their_buckets',
        format('%s/%s %s', block.dataset, block.subject_key, instant_of(block.segment_us)),
        format('rollup %s block %s does not begin and end with its buckets', block.rollup, block.block)
    from rollup_block as block
    where
        (block.first_bucket_us, block.last_bucket_end_us) is distinct from (
            (select min(bucket.us) from unnest(block.buckets_us) as bucket (us)),
            (select max(bucket.us) from unnest(block.bucket_ends_us) as bucket (us))
        )
    order by 2, 3
    limit p_limit;
end
$$;
comment on function disarray.audit_readings(integer) is 'No double effect: lines, fragments, segments and numbers that do not add up.';

create function disarray.audit_commits(p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
begin
    return query
    select
        'a_subject_has_one_definition',
        format('%s/%s', part.dataset, part.subject_key),
        format('%s under version %s, the subject has %s', part.what, part.version, coalesce(part.made, 'none'))
    from (
        select distinct
            stored.dataset,
            stored.subject_key,
            'fragments read' as what,
            stored.parse_version as version,
            made.parse_version as made
        from fragment as stored
        left join subject_version as made
            on
                stored.dataset = made.dataset
                and stored.subject_key = made.subject_key
        where stored.state in ('active', 'parked')
        union all
        select distinct
            known.dataset,
            known.subject_key,
            'segments scanned',
            known.scan_version,
            made.scan_version
        from segment as known
        left join subject_version as made
            on
                known.dataset = made.dataset
                and known.subject_key = made.subject_key
    ) as part
    where part.version is distinct from part.made
    order by 2, 3
    limit p_limit;

    return query
    select
        'segments_come_from_a_commit',
        format('%s/%s %s', known.dataset, known.subject_key, instant_of(known.segment_us)),
        format('revision %s is of run %s, which never committed', known.revision, known.run_id)
    from segment as known
    where not exists (
        select
        from run
        where
            run.run_id = known.run_id
            and run.subject_key = known.subject_key
    )
    order by 2
    limit p_limit;

    return query
    select
        'commits_are_numbered_without_gaps',
        format('%s/%s', noted.dataset, noted.subject_key),
        format('commit %s follows commit %s', noted.commit_seq, noted.former_seq)
    from (
        select
            every.dataset,
            every.subject_key,
            every.commit_seq,
            lag(every.commit_seq) over (partition by every.subject_key, every.dataset order by every.commit_seq) as former_seq
        from subject_commit as every
    ) as noted
    where noted.commit_seq <> noted.former_seq + 1
    order by 2, 3
    limit p_limit;
end
$$;
comment on function disarray.audit_commits(integer) is 'Atomicity, as far as it shows at rest: what is half of one commit, or of none.';

create function disarray.audit_origins(p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
begin
    return query
    select
        'readings_have_an_origin',
        stored.source_uri,
        format(
            'fragment %s: its %s not there', stored.fragment_id, concat_ws(
                ', ',
                case when run.run_id is null then 'run ' || stored.run_id end,
                case when file.source_uri is null then 'file' end,
                case when version.source_uri is null then 'file version' end,
                case when place.path is null then 'lake file ' || stored.path end
            ) || ' is'
        )
    from fragment as stored
    left join run
        on
            stored.run_id = run.run_id
            and stored.subject_key = run.subject_key
    left join file_info as file on stored.source_uri = file.source_uri
    left join file_fingerprint as version on stored.source_uri = version.source_uri
    left join lake_file as place
        on
            stored.path = place.path
            and place.doomed_at is null
    where
        stored.state in ('active', 'parked', 'rejected')
        and (run.run_id is null or file.source_uri is null or version.source_uri is null or place.path is null)
    order by stored.fragment_id
    limit p_limit;

    return query
    select
        'files_are_known_as_they_were_read',
        file.source_uri,
        format(
            'known is %s, read under %s; remembered is %s, read under %s',
            file.content_hash, file.parse_version, version.content_hash, version.parse_version
        )
    from file_info as file
    inner join file_fingerprint as version on file.source_uri = version.source_uri
    where
        -- Of a file with a version that waits for a decision, the one that was read last is known and the one before remembered.
        file.status = 'processed'
        and file.content_hash is not null
        and (file.content_hash, file.parse_version) is distinct from (version.content_hash, version.parse_version)
    order by file.source_uri
    limit p_limit;

    return query
    select
        'dead_letters_say_why_and_can_be_retried',
        file.source_uri,
        format(
            'status %s, failed at %s, request %s, error %s', file.status, coalesce(file.failed_at::text, 'never'),
            coalesce(file.failed_request ->> 'reason', 'unknown'), coalesce(quote_literal(left(file.last_error, 100)), 'unknown')
        )
    from file_info as file
    where
        (
            file.status = 'failed'
            and file.failed_at is null
        )
        or (
            file.failed_at is not null
            and (
                coalesce(file.last_error, '') = ''
                or file.failed_request -> 'metadata' is null
                or not coalesce(file.failed_request ->> 'reason' = any(enum_range(null::ingest_queue_reason)::text[]), false)
                or exists (select from ingest_queue as item where item.source_uri = file.source_uri)
            )
        )
    order by file.source_uri
    limit p_limit;

    return query
    select
        'rejected_lines_can_be_looked_at',
        file.source_uri,
        format('%s lines rejected, none of them is kept', file.metadata #>> '{lines,rejected}')
    from file_info as file
    where
        file.status = 'processed'
        and file.metadata ->> 'outcome' = 'processed'
        and (file.metadata #>> '{lines,rejected}')::bigint > 0
        and not exists (
            select
            from rejected_row as line
            where
                line.source_uri = file.source_uri
                and line.reason <> ''
        )
    order by file.source_uri
    limit p_limit;

    return query
    select
        'what_is_parked_can_be_decided',
        file.source_uri,
        format('%s, and readings of it are parked', file.status)
    from file_info as file
    where
        file.status in ('processed', 'failed')
        and exists (
            select
            from fragment as late
            where
                late.source_uri = file.source_uri
                and late.state = 'parked'
        )
        -- What failed last may have been the release of what is parked.
        and file.failed_at is null
    order by file.source_uri
    limit p_limit;
end
$$;
comment on function disarray.audit_origins(integer) is
    'Explainable: readings, dead letters, rejected lines and parked files of which nobody could say where they come from or what to do.';

create function disarray.load_base_chains(p_subject_key text)
returns table (
    dataset text,
    metric text,
    channel text,
    segment_us bigint,
    piece smallint,
    kind text,
    method text,
    max_gap_us bigint,
    is_integer boolean,
    points bigint,
    total_float float8,
    total_int bigint,
    first_us bigint,
    first_float float8,
    first_int bigint,
    first_break text,
    first_reset text,
    last_us bigint,
    last_float float8,
    last_int bigint,
    last_break text,
    last_reset text,
    base_float float8,
    base_int bigint,
    before_float float8,
    before_int bigint,
    first_reading_us bigint,
    reset_us bigint,
    block_us bigint,
    is_carried boolean,
    offset_float float8,
    offset_int bigint,
    offset_before_float float8,
    offset_before_int bigint
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    summary.dataset,
    summary.metric,
    summary.channel,
    summary.segment_us,
    summary.piece,
    defined.kind,
    defined.method,
    defined.max_gap_us,
    defined.is_integer,
    summary.points,
    summary.total_float,
    summary.total_int,
    summary.first_us,
    summary.first_float,
    summary.first_int,
    summary.first_break,
    summary.first_reset,
    summary.last_us,
    summary.last_float,
    summary.last_int,
    summary.last_break,
    summary.last_reset,
    summary.base_float,
    summary.base_int,
    summary.before_float,
    summary.before_int,
    summary.first_reading_us,
    summary.reset_us,
    own.block_us,
    own.is_carried,
    own.base_float,
    own.base_int,
    own.before_float,
    own.before_int
from segment_metric as summary
inner join segment_summary as own using (dataset, subject_key, metric, channel, segment_us, piece)
inner join subject_version as made
    on
        summary.subject_key = made.subject_key
        and summary.dataset = made.dataset
inner join metric as defined
    on
        made.dataset = defined.dataset
        and made.scan_version = defined.scan_version
        and summary.metric = defined.metric
where summary.subject_key = p_subject_key
order by
    summary.dataset,
    summary.metric,
    summary.channel,
    summary.segment_us,
    summary.piece
$$;
comment on function disarray.load_base_chains(text) is
    'The summaries and bases of a subject series by series, in the order of time, each with what its metric is: what a base is added up from. '
    'With what is stored of a base: what it is within its block.';

create function disarray.list_live_lake_files()
returns table (
    path text,
    bytes bigint,
    checksum text,
    row_groups integer[],
    readings bigint[],
    first_rows integer[],
    digests text[],
    former_row_groups integer[],
    former_digests text[]
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.path,
    file.bytes,
    file.checksum,
    array_agg(stored.row_group order by stored.fragment_id) filter (where stored.is_needed),
    array_agg(stored.readings order by stored.fragment_id) filter (where stored.is_needed),
    array_agg(stored.first_row order by stored.fragment_id) filter (where stored.is_needed),
    array_agg(stored.digest order by stored.fragment_id) filter (where stored.is_needed),
    coalesce(array_agg(stored.row_group order by stored.fragment_id) filter (where not stored.is_needed and stored.digest is not null), '{}'),
    coalesce(array_agg(stored.digest order by stored.fragment_id) filter (where not stored.is_needed and stored.digest is not null), '{}')
from lake_file as file
inner join (
    select
        known.*,
        known.state in ('active', 'parked', 'rejected') or known.withdrawn_state is not null as is_needed
    from fragment as known
) as stored on file.path = stored.path
group by file.path
having bool_or(stored.is_needed)
order by file.path
$$;
comment on function disarray.list_live_lake_files() is
    'Every file of the lake that a fragment needs: its size and checksum, the row groups that are needed with their readings and '
    'digests, and those that no fragment needs any more.';
