-- What a replay compares: what is stored of a subject in a span, and bases carried from segment to segment without a trace.

create function disarray.next_replayed_subject(
    p_after text[],
    p_datasets text[],
    p_subjects text[],
    p_from_us bigint,
    p_to_us bigint
)
returns table (subject_key text, dataset text, readings bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    made.subject_key,
    made.dataset,
    counted.readings::bigint
from subject_version as made
cross join lateral (
    select sum(known.readings) as readings
    from segment as known
    where
        known.dataset = made.dataset
        and known.subject_key = made.subject_key
        and known.segment_us between p_from_us and p_to_us
) as counted
where
    (p_after is null or (made.subject_key, made.dataset) > (p_after[1], p_after[2]))
    and (p_datasets is null or made.dataset = any(p_datasets))
    and (p_subjects is null or made.subject_key = any(p_subjects))
    and counted.readings > 0
order by
    made.subject_key,
    made.dataset
limit 1
$$;
comment on function disarray.next_replayed_subject(text[], text[], text[], bigint, bigint) is
    'The next subject and dataset behind a cursor that have readings in a span, and how many.';

create function disarray.measure_replay(p_datasets text[], p_subjects text[], p_from_us bigint, p_to_us bigint)
returns table (subjects bigint, readings bigint, last_subject_key text, last_dataset text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
with counted as (
    select
        made.subject_key,
        made.dataset,
        sum(known.readings) as readings
    from subject_version as made
    inner join segment as known
        on
            made.dataset = known.dataset
            and made.subject_key = known.subject_key
            and known.segment_us between p_from_us and p_to_us
    where
        (p_datasets is null or made.dataset = any(p_datasets))
        and (p_subjects is null or made.subject_key = any(p_subjects))
    group by
        made.subject_key,
        made.dataset
),

last as (
    select
        counted.subject_key,
        counted.dataset
    from counted
    order by
        counted.subject_key desc,
        counted.dataset desc
    limit 1
)

select
    count(counted.dataset),
    coalesce(sum(counted.readings), 0)::bigint,
    (select last.subject_key from last),
    (select last.dataset from last)
from counted
$$;
comment on function disarray.measure_replay(text[], text[], bigint, bigint) is
    'How much a replay of a span compares: pairs of subject and dataset, their readings, and the last of them; NULL where there is none.';

create function disarray.newest_commit_seq(p_subject_key text, p_dataset text)
returns bigint
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select coalesce(max(noted.commit_seq), 0)
from subject_commit as noted
where
    noted.subject_key = p_subject_key
    and noted.dataset = p_dataset
$$;
comment on function disarray.newest_commit_seq(text, text) is 'The number of the newest commit that changed numbers of a subject in a dataset; 0 without any.';

create function disarray.load_span_summaries(p_dataset text, p_subject_key text, p_from_us bigint, p_to_us bigint)
returns setof disarray.segment_metric
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select summary.*
from segment_metric as summary
where
    summary.dataset = p_dataset
    and summary.subject_key = p_subject_key
    and summary.segment_us between p_from_us and p_to_us
$$;
comment on function disarray.load_span_summaries(text, text, bigint, bigint) is 'Summaries and bases of the segments that start in a span.';

create function disarray.blocks_up_to(p_piece disarray.segment_summary)
returns json
language sql
stable
as $$
-- A block whose end changes is carried on from the one before it: its own base is not what the fold begins with.
select coalesce(json_agg(row_to_json(known)), '[]')
from (
    select own.*
    from disarray.metric_block as own
    where
        own.dataset = p_piece.dataset
        and own.subject_key = p_piece.subject_key
        and own.metric = p_piece.metric
        and own.channel = p_piece.channel
        and own.block_us <= p_piece.block_us
    order by own.block_us desc
    limit 2
) as known
$$;
comment on function disarray.blocks_up_to(disarray.segment_summary) is 'The block of a piece, and the one before it.';

create function disarray.load_last_summaries(p_dataset text, p_subject_key text, p_before_us bigint)
returns table (metric text, channel text, segment_us bigint, summary json, blocks json)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    last.metric,
    last.channel,
    last.segment_us,
    row_to_json(last),
    blocks_up_to(last)
from (
    select distinct on (known.metric, known.channel) known.*
    from segment_summary as known
    where
        known.dataset = p_dataset
        and known.subject_key = p_subject_key
        and known.segment_us < p_before_us
    order by
        known.metric,
        known.channel,
        known.segment_us desc,
        known.piece desc
) as last
$$;
comment on function disarray.load_last_summaries(text, text, bigint) is
    'The last piece of each series before a point, its block and the one before that: what the bases behind it are carried on from.';

create function disarray.load_span_rollup_parts(p_dataset text, p_subject_key text, p_from_us bigint, p_to_us bigint)
returns setof disarray.rollup
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select part.*
from rollup as part
where
    part.dataset = p_dataset
    and part.subject_key = p_subject_key
    and part.segment_us between p_from_us and p_to_us
$$;
comment on function disarray.load_span_rollup_parts(text, text, bigint, bigint) is 'What the segments that start in a span contribute to buckets.';

create function disarray.carry_bases(
    p_dataset text,
    p_subject_key text,
    p_metrics json,
    p_frontier_us bigint,
    p_pieces json,
    p_blocks json default '[]'
)
returns table (carried disarray.segment_metric, summary json, blocks json)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    -- Of nobody: no reader and no worker ever asks for it.
    v_subject constant text := 'replay ' || gen_random_uuid();
    v_now constant timestamptz := clock();
    -- Of a subject that nothing is stored of there is nothing to compare with either.
    v_block_length_us constant bigint := coalesce(
        (
            select made.block_length_us
            from subject_version as made
            where
                made.subject_key = p_subject_key
                and made.dataset = p_dataset
        ),
        1
    );
    v_piece segment_summary;
    v_block metric_block;
    v_carried segment_metric[];
    v_summaries json[];
    v_blocks json[];
begin
    v_piece.dataset := p_dataset;
    v_piece.subject_key := v_subject;
    v_piece.block_us := 0;
    v_block.dataset := p_dataset;
    v_block.subject_key := v_subject;
    begin
        insert into dataset_version (dataset, parse_version, scan_version, definition, registered_at, in_force_since, superseded_at)
        values (p_dataset, v_subject, v_subject, '{}', v_now, v_now, v_now);
        insert into metric (dataset, scan_version, metric, kind, method, max_gap_us, is_integer, unit)
        select
            p_dataset,
            v_subject,
            declared.name,
            declared.kind,
            declared.method,
            declared.max_gap_us,
            declared.is_integer,
            declared.unit
        from json_to_recordset(p_metrics)
            as declared (name text, kind text, method text, max_gap_us bigint, is_integer boolean, unit text);
        insert into subject_version (subject_key, dataset, parse_version, scan_version, block_length_us)
        values (v_subject, p_dataset, v_subject, v_subject, v_block_length_us);
        -- json, not jsonb: the text of a float is kept, and with it the sign of a zero.
        insert into segment_summary
        select given.*
        from json_populate_recordset(v_piece, p_pieces) as given;
        update segment_summary as given
        set block_us = telemetry.block_of(given.segment_us, v_block_length_us)
        where
            given.dataset = p_dataset
            and given.subject_key = v_subject;
        insert into metric_block
        select given.*
        from json_populate_recordset(v_block, p_blocks) as given;
        perform telemetry.shift_bases(p_dataset, v_subject, p_frontier_us, null);
        select
            array_agg(made.piece),
            array_agg(case when made.is_last then row_to_json(own) end),
            array_agg(case when made.is_last then blocks_up_to(own) end)
        into
            v_carried,
            v_summaries,
            v_blocks
        from (
            select
                known as piece,
                known.metric,
                known.channel,
                known.segment_us,
                known.piece as number,
                lead(known.segment_us) over (
                    partition by known.metric, known.channel
                    order by known.segment_us, known.piece
                ) is null as is_last
            from segment_metric as known
            where
                known.dataset = p_dataset
                and known.subject_key = v_subject
                and known.segment_us >= p_frontier_us
        ) as made
        inner join segment_summary as own
            on
                own.dataset = p_dataset
                and own.subject_key = v_subject
                and made.metric = own.metric
                and made.channel = own.channel
                and made.segment_us = own.segment_us
                and made.number = own.piece;
        raise sqlstate 'DA099';
    -- Caught here, it undoes the block and reaches nobody.
    exception when sqlstate 'DA099' then
        null;
    end;
    return query
    select
        v_carried[place.number],
        v_summaries[place.number],
        v_blocks[place.number]
    from generate_subscripts(v_carried, 1) as place (number);
end
$$;
comment on function disarray.carry_bases(text, text, json, bigint, json, json) is
    'The bases of these pieces of a subject from a frontier on, by the arithmetic of a commit: pieces before it, and their blocks, are what '
    'they are carried on from, and with the last piece of each series both come back. '
    'All of it happens under a subject of nobody in a transaction that is undone: nothing is left, and nobody waits.';

create function disarray.list_backfill_findings(p_job_id bigint, p_limit integer default 100)
returns table (
    chunk_no bigint,
    kind text,
    dataset text,
    subject_key text,
    segment_us bigint,
    what text,
    name text,
    channel text,
    stored text,
    replayed text
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    chunk.chunk_no,
    finding.kind,
    finding.dataset,
    finding.subject_key,
    finding.segment_us,
    finding.what,
    finding.name,
    finding.channel,
    finding.stored,
    finding.replayed
from backfill_chunk as chunk
cross join lateral jsonb_array_elements(chunk.details -> 'findings') with ordinality as listed (document, place)
cross join lateral jsonb_to_record(listed.document) as finding (
    kind text, dataset text, subject_key text, segment_us bigint, what text, name text, channel text, stored text, replayed text
)
where
    chunk.job_id = p_job_id
    and jsonb_array_length(chunk.details -> 'findings') > 0
order by
    finding.kind,
    chunk.chunk_no,
    listed.place
limit p_limit
$$;
comment on function disarray.list_backfill_findings(bigint, integer) is
    'What a replay found, differences first: what is stored, and what the files give now.';

create function disarray.distrust_segments(p_dataset text, p_subject_key text, p_segments bigint[])
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_count bigint;
begin
    -- As a commit does: either it has ended, or it comes after us.
    perform
    from subject_lock as lock
    where lock.subject_key = p_subject_key
    for update;
    update segment as known
    set digest = ''
    where
        known.dataset = p_dataset
        and known.subject_key = p_subject_key
        and known.segment_us = any(p_segments)
        and known.sealed_at is null;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
comment on function disarray.distrust_segments(text, text, bigint[]) is
    'Forget what the readings of some segments were when their numbers were made: the next scan of them is a change, whatever it finds, and '
    'puts all of their numbers anew. Equal content would be no news otherwise. Sealed segments are left alone.';

create function disarray.begin_applying(p_job_id bigint, p_chunk_no bigint)
returns boolean
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    -- The row stays locked until the transaction ends: of two who ask at once, the second finds it noted.
    update backfill_chunk as chunk
    set details = chunk.details || jsonb_build_object('applied_at', clock())
    where
        chunk.job_id = p_job_id
        and chunk.chunk_no = p_chunk_no
        and chunk.state = 'done'
        and not chunk.details ? 'applied_at';
    return found;
end
$$;
comment on function disarray.begin_applying(bigint, bigint) is
    'Note that what a chunk of a replay found is taken over: first statement of the transaction that queues it. False where it was before.';

create function disarray.note_backfill_applied(p_job_id bigint, p_files bigint, p_rebuilds bigint, p_reason text, p_by text)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform check_decision(p_reason, p_by);
    perform note_backfill_event(
        'backfill_applied',
        p_job_id,
        decision_of(p_reason, p_by) || jsonb_build_object('files', p_files, 'rebuilds', p_rebuilds)
    );
end
$$;
comment on function disarray.note_backfill_applied(bigint, bigint, bigint, text, text) is
    'Write down who took over what a replay found of a subject, why, and how many files and rebuilds are queued for it.';
