-- Files that belong to another dataset or subject than before: handed over to the right one, read there, and removed here.

create function disarray.hand_over_items(
    p_queue_ids bigint[],
    p_subject_keys text[],
    p_datasets text[],
    p_instance_name text,
    p_incarnation bigint default null
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_item record;
    v_handed ingest_queue;
begin
    if cardinality(p_queue_ids) is distinct from cardinality(p_subject_keys)
        or cardinality(p_queue_ids) is distinct from cardinality(p_datasets)
    then
        raise exception 'hand_over_items needs one subject and dataset for each of the % items. Nothing was changed.', cardinality(p_queue_ids)
        using errcode = 'DA001';
    end if;
    perform check_subject(given.subject_key)
    from unnest(p_subject_keys) as given (subject_key);
    perform lock_claims(p_queue_ids, p_instance_name, p_incarnation);
    for v_item in
        select
            item.queue_id,
            item.subject_key as former,
            given.subject_key,
            given.dataset
        from unnest(p_queue_ids, p_subject_keys, p_datasets) as given (queue_id, subject_key, dataset)
        inner join ingest_queue as item on given.queue_id = item.queue_id
        order by
            given.subject_key,
            item.source_uri
    loop
        update ingest_queue as item
        set
            subject_key = v_item.subject_key,
            dataset = v_item.dataset
        where item.queue_id = v_item.queue_id
        returning item.* into v_handed;
        -- Counted: a file that is sent back and forth ends as a dead letter, not as a loop.
        perform return_claim(
            v_handed,
            p_event => 'released',
            p_now => v_now,
            p_error_message => format(
                'it was announced for %s and is about %s: handed over. If this goes on, two workers have different definitions',
                v_item.former, v_item.subject_key
            ),
            p_metadata => jsonb_build_object('handed_over_from', v_item.former)
        );
    end loop;
end
$$;
comment on function disarray.hand_over_items(bigint[], text[], text[], text, bigint) is
    'Give claimed items to the subjects that their files are about. Each hand-over counts as an attempt, so that it comes to an end.';

create function disarray.load_file_homes(p_source_uris text[])
returns table (
    source_uri text,
    dataset text,
    subject_key text,
    generation integer,
    first_us bigint,
    is_sealed boolean,
    is_known boolean
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    stored.source_uri,
    stored.dataset,
    stored.subject_key,
    stored.generation,
    coalesce(min(stored.first_us) filter (where stored.state <> 'sealed'), min(stored.first_us)),
    bool_and(stored.state = 'sealed'),
    -- One that was announced without its dataset and taken in is known by its readings.
    coalesce(bool_or(file.subject_key = stored.subject_key and coalesce(file.dataset, stored.dataset) = stored.dataset), false)
from fragment as stored
left join file_info as file on stored.source_uri = file.source_uri
where
    stored.source_uri = any(p_source_uris)
    and stored.state <> 'dropped'
group by
    stored.source_uri,
    stored.dataset,
    stored.subject_key,
    stored.generation
$$;
comment on function disarray.load_file_homes(text[]) is
    'For which datasets and subjects some files have readings, by generation, and since when those that are not sealed; whether all of '
    'them are, and whether that is where the file was taken in last.';

create function disarray.load_moving_files(p_subject_keys text[])
returns table (subject_key text, dataset text, source_uri text, is_arriving boolean, generation integer, decision text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    moving.subject_key,
    moving.dataset,
    moving.source_uri,
    moving.is_arriving,
    moving.generation,
    moving.decision
from moving_file as moving
where moving.subject_key = any(p_subject_keys)
order by moving.source_uri
$$;
comment on function disarray.load_moving_files(text[]) is
    'Files that are still to come to some subjects, or to leave them, and decisions about what they said there earlier.';

create function disarray.is_left(p_dataset text, p_subject_key text, p_segment_us bigint)
returns boolean
language sql
stable
as $$
select exists (
    select
    from disarray.moving_file as moving
    inner join disarray.fragment as stored
        on
            moving.dataset = stored.dataset
            and moving.subject_key = stored.subject_key
            and moving.source_uri = stored.source_uri
            and stored.generation = coalesce(moving.generation, stored.generation)
    where
        moving.dataset = p_dataset
        and moving.subject_key = p_subject_key
        and not moving.is_arriving
        and stored.segment_us = p_segment_us
        and stored.state = 'active'
)
$$;
comment on function disarray.is_left(text, text, bigint) is
    'Whether a file that counts elsewhere already is still to leave a segment: sealed before, it would count twice for ever.';

create function disarray.decide_elsewhere(p_source_uri text, p_decision text)
returns bigint
language plpgsql
as $$
declare
    v_now constant timestamptz := disarray.clock();
    v_side record;
    v_queue_id bigint;
begin
    -- What was to leave because the file was blacklisted stays, where nobody can read it again.
    delete from disarray.moving_file as moving
    where
        moving.source_uri = p_source_uri
        and p_decision = 'allow'
        and not moving.is_arriving
        and (moving.dataset, moving.subject_key) in (
            select
                earlier.dataset,
                earlier.subject_key
            from disarray.earlier_homes(p_source_uri) as earlier
        );
    for v_side in
        insert into disarray.moving_file as moving (
            subject_key, dataset, source_uri, is_arriving, generation, stale_from, noted_at, decision
        )
        select
            earlier.subject_key,
            earlier.dataset,
            p_source_uri,
            true,
            earlier.generation,
            disarray.instant_of(earlier.first_us),
            v_now,
            p_decision
        from disarray.earlier_homes(p_source_uri) as earlier
        where case when p_decision = 'allow' then earlier.is_withdrawn else earlier.is_parked end
        order by
            earlier.subject_key,
            earlier.dataset
        on conflict (subject_key, dataset, source_uri) do update
        set
            decision = excluded.decision,
            noted_at = excluded.noted_at
        where moving.decision is not null
        returning
            moving.subject_key,
            moving.dataset
    loop
        perform disarray.queue_rebuilds(v_side.dataset, v_side.subject_key);
        select item.queue_id
        into v_queue_id
        from disarray.ingest_queue as item
        where
            item.source_uri is null
            and item.kind = 'rebuild'
            and item.status = 'available'
            and item.subject_key = v_side.subject_key
            and item.dataset = v_side.dataset;
    end loop;
    return v_queue_id;
end
$$;
comment on function disarray.decide_elsewhere(text, text) is
    'Have a decision about a file carried out also where earlier generations of it were counted; one of the queued items, or NULL.';

create function disarray.earlier_homes(p_source_uri text)
returns table (dataset text, subject_key text, generation integer, first_us bigint, is_withdrawn boolean, is_parked boolean)
language sql
stable
as $$
select
    said.dataset,
    said.subject_key,
    max(said.generation),
    min(said.first_us),
    bool_or(said.withdrawn_state is not null),
    bool_or(said.state = 'parked')
from disarray.fragment as said
where
    said.source_uri = p_source_uri
    and (said.state in ('active', 'parked', 'rejected') or said.withdrawn_state is not null)
group by
    said.dataset,
    said.subject_key
having
    max(said.generation) < (
        select max(newest.generation)
        from disarray.fragment as newest
        where
            newest.source_uri = p_source_uri
            and (newest.state in ('active', 'parked', 'rejected') or newest.withdrawn_state is not null)
    )
$$;
comment on function disarray.earlier_homes(text) is
    'Datasets and subjects of which earlier generations of a file said something, and the newest one nothing.';

create function disarray.end_decisions(p_subject_key text, p_changes json)
returns void
language plpgsql
as $$
begin
    if not exists (select from disarray.moving_file as moving where moving.decision is not null) then
        return;
    end if;
    -- Files first, as whoever decides about one does.
    update disarray.file_info as file
    set status = 'processed'
    where
        file.status = 'parked'
        and file.source_uri in (
            select moving.source_uri
            from json_to_recordset(p_changes -> 'left') as done (dataset text, source_uri text)
            inner join disarray.moving_file as moving
                on
                    moving.subject_key = p_subject_key
                    and done.dataset = moving.dataset
                    and done.source_uri = moving.source_uri
            where moving.decision is not null
        )
        and not exists (select from disarray.list_quarantine(file.source_uri) as waiting);
    delete from disarray.moving_file as moving
    using json_to_recordset(p_changes -> 'left') as done (dataset text, source_uri text)
    where
        moving.subject_key = p_subject_key
        and moving.dataset = done.dataset
        and moving.source_uri = done.source_uri
        and moving.decision is not null;
end
$$;
comment on function disarray.end_decisions(text, json) is 'Decisions about earlier generations that a commit has carried out.';

create function disarray.end_moves(p_subject_key text, p_changes json)
returns void
language plpgsql
as $$
begin
    if not exists (select from disarray.moving_file) then
        return;
    end if;
    delete from disarray.moving_file as moving
    using json_to_recordset(p_changes -> 'left') as gone (dataset text, source_uri text)
    where
        moving.subject_key = p_subject_key
        and moving.dataset = gone.dataset
        and moving.source_uri = gone.source_uri
        and not moving.is_arriving;
    -- Whatever came of its item, nothing is on its way any more.
    delete from disarray.moving_file as moving
    using
        json_to_recordset(p_changes -> 'completions') as done (queue_id bigint),
        disarray.ingest_queue as item
    where
        item.queue_id = done.queue_id
        and moving.source_uri = item.source_uri
        and moving.is_arriving
        and moving.decision is null;
end
$$;
comment on function disarray.end_moves(text, json) is 'Moves that end with a commit: what is to leave leaves with it, what is to come was read.';

create function disarray.begin_moves(p_subject_key text, p_changes json, p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_side record;
begin
    if coalesce(json_array_length(p_changes -> 'leaving'), 0) = 0 and coalesce(json_array_length(p_changes -> 'moved'), 0) = 0 then
        return;
    end if;
    -- The files of a rebuild leave with its commit, and their items are queued; those of an item were read, and leave elsewhere.
    insert into disarray.moving_file (subject_key, dataset, source_uri, is_arriving, generation, stale_from, noted_at)
    select
        side.subject_key,
        side.dataset,
        side.source_uri,
        side.is_arriving,
        side.generation,
        disarray.instant_of(side.first_us),
        p_now
    from (
        select
            moved.subject_key,
            moved.dataset,
            moved.source_uri,
            true as is_arriving,
            null::integer as generation,
            moved.first_us
        from json_to_recordset(p_changes -> 'moved')
            as moved (source_uri text, subject_key text, dataset text, first_us bigint)
        where moved.first_us is not null
        union all
        select
            gone.subject_key,
            gone.dataset,
            gone.source_uri,
            false,
            gone.generation,
            gone.first_us
        from json_to_recordset(p_changes -> 'leaving')
            as gone (source_uri text, subject_key text, dataset text, generation integer, first_us bigint)
    ) as side
    order by
        side.subject_key,
        side.dataset,
        side.source_uri
    on conflict (subject_key, dataset, source_uri) do update
    set
        is_arriving = excluded.is_arriving,
        generation = excluded.generation,
        stale_from = excluded.stale_from,
        noted_at = excluded.noted_at;
    -- Two commits that each call the other's subject take the rows in one order.
    perform
    from disarray.subject as called
    where called.subject_key = p_subject_key or called.subject_key in (
        select gone.subject_key
        from json_to_recordset(p_changes -> 'leaving') as gone (subject_key text)
    )
    order by called.subject_key
    for update;
    for v_side in
        select distinct
            gone.subject_key,
            gone.dataset
        from json_to_recordset(p_changes -> 'leaving') as gone (subject_key text, dataset text)
        order by
            gone.subject_key,
            gone.dataset
    loop
        perform disarray.queue_rebuilds(v_side.dataset, v_side.subject_key);
    end loop;
end
$$;
comment on function disarray.begin_moves(text, json, timestamptz) is
    'Moves whose other side is still to be done: noted there, so that its numbers are stale, and queued.';

create function disarray.count_moving_files()
returns bigint
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select count(*)
from moving_file
$$;
comment on function disarray.count_moving_files() is 'How many files are on their way from one dataset or subject to another.';

create function disarray.list_known_files(p_after text, p_limit integer, p_with_fingerprints boolean default false)
returns table (
    source_uri text,
    dataset text,
    subject_key text,
    homes jsonb,
    is_rebuild_pending boolean,
    is_queued boolean,
    fingerprint bytea
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.source_uri,
    file.dataset,
    file.subject_key,
    coalesce(
        (
            select jsonb_agg(distinct jsonb_build_array(stored.dataset, stored.subject_key))
            from fragment as stored
            where
                stored.source_uri = file.source_uri
                and stored.state <> 'dropped'
                and stored.state <> 'sealed'
                and stored.generation = (
                    select max(newest.generation)
                    from fragment as newest
                    where
                        newest.source_uri = file.source_uri
                        and newest.state <> 'dropped'
                )
                and not exists (
                    select
                    from moving_file as moving
                    where
                        moving.subject_key = stored.subject_key
                        and moving.dataset = stored.dataset
                        and moving.source_uri = stored.source_uri
                )
        ),
        '[]'
    ),
    exists (select from pending_rebuilds(file.dataset, file.subject_key)),
    exists (select from ingest_queue as item where item.source_uri = file.source_uri),
    case when p_with_fingerprints then known.fingerprint end
from file_info as file
inner join file_fingerprint as known on file.source_uri = known.source_uri
where
    file.source_uri > p_after
    and not exists (select from file_blacklist as listed where listed.source_uri = file.source_uri)
order by file.source_uri
limit p_limit
$$;
comment on function disarray.list_known_files(text, integer, boolean) is
    'Files that were taken in and are not blacklisted, by uri: where they are known to belong, and where their newest readings are.';

create function disarray.queue_moves(p_source_uris text[], p_subject_keys text[], p_datasets text[])
returns bigint
language sql
security definer
set search_path = disarray, pg_temp
as $$
with moved as (
    select
        array_agg(given.source_uri order by given.source_uri) as source_uris,
        array_agg(given.subject_key order by given.source_uri) as subject_keys,
        array_agg('rebuild'::text) as reasons,
        array_agg(jsonb_build_object('dataset', given.dataset) order by given.source_uri) as metadata
    from unnest(p_source_uris, p_subject_keys, p_datasets) as given (source_uri, subject_key, dataset)
    inner join file_info as file on given.source_uri = file.source_uri
    where file.process_count > 0
)

select count(queued.queue_id)
from moved
cross join lateral enqueue_requests(moved.source_uris, moved.subject_keys, moved.reasons, null, moved.metadata) as queued
where moved.source_uris is not null
$$;
comment on function disarray.queue_moves(text[], text[], text[]) is
    'Have files that were taken in read again for the dataset and subject that they belong to now; how many were queued. '
    'What a definition moves is no decision about a file: whoever may put a definition in force may ask for it.';

create function disarray.matching_rules()
returns text
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select matching.rules
from file_matching as matching
$$;
comment on function disarray.matching_rules() is 'The rules that all known files were last held against; NULL where they never were.';

create function disarray.note_matching(p_rules text, p_unmatched_uris text[])
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
begin
    insert into file_matching as matching (rules, matched_at)
    values (p_rules, v_now)
    on conflict (is_current) do update
    set
        rules = excluded.rules,
        matched_at = excluded.matched_at;
    delete from unmatched_file as known
    where not known.source_uri = any(p_unmatched_uris);
    insert into unmatched_file (source_uri, noted_at)
    select
        given.source_uri,
        v_now
    from unnest(p_unmatched_uris) as given (source_uri)
    on conflict (source_uri) do nothing;
end
$$;
comment on function disarray.note_matching(text, text[]) is
    'Note that all known files were held against these rules, and which of them no dataset takes.';

create function disarray.list_unmatched_files(p_limit integer default 100)
returns table (source_uri text, dataset text, subject_key text, readings bigint, files bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.source_uri,
    file.dataset,
    file.subject_key,
    (
        select coalesce(sum(stored.readings), 0)::bigint
        from fragment as stored
        where
            stored.source_uri = file.source_uri
            and stored.state = 'active'
    ),
    count(*) over ()
from unmatched_file as known
inner join file_info as file on known.source_uri = file.source_uri
where not exists (select from file_blacklist as listed where listed.source_uri = file.source_uri)
order by file.source_uri
limit p_limit
$$;
comment on function disarray.list_unmatched_files(integer) is
    'Files that no dataset takes any more, how many of their readings still count, and in files how many such files there are.';
