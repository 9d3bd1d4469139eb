-- The inbox. Producers add events, drainers claim them and settle them in the transaction that records their delivery.

create function disarray.record_events(p_dataset text, p_events text[])
returns table (seen integer, new integer, duplicate integer, rejected jsonb)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock();
    v_seen constant integer := coalesce(cardinality(p_events), 0);
    v_id_fields constant text[] := event_id_fields(p_dataset);
    -- The way to the id where that is one field, and to the event itself where it has none.
    v_id_path constant text[] := coalesce(string_to_array(v_id_fields[1], '.'), '{}');
    v_first_id bigint;
    v_payloads jsonb[];
    v_reasons text[];
    v_new integer;
    v_rejected jsonb;
begin
    if v_seen > 10000 or (select sum(octet_length(event)) from unnest(p_events) as given (event)) > 5242880 then
        raise exception 'a call takes at most 10000 events and 5242880 bytes. Nothing was stored.'
        using errcode = 'DA001', hint = 'Send them in several calls.';
    end if;
    begin
        -- All at once: one that cannot be parsed is rare, and then each is tried by itself.
        v_payloads := p_events::jsonb[];
    exception when data_exception or program_limit_exceeded then
        select
            array_agg(parsed.payload order by given.place),
            array_agg(parsed.reason order by given.place)
        into v_payloads, v_reasons
        from unnest(p_events) with ordinality as given (event, place)
        cross join lateral parse_event(given.event) as parsed;
    end;
    v_first_id := nextval('raw_event_seq');
    with judged as (
        select
            given.place,
            given.payload,
            -- Nearly all events are short, flat and ordinary. To see that here costs a third of asking event_refusal.
            case
                when jsonb_typeof(given.payload) <> 'object'
                    -- Written out it has a blank more after each comma and colon, and is never twice as long.
                    or octet_length(given.event) > 32768
                    or given.event like '%{%{%'
                    or given.event like '%[%'
                    or given.event ~ '[eE][+-]?[0-9]{3}'
                    or cardinality(v_id_fields) > 1
                    or coalesce(given.payload #> v_id_path, 'null') = 'null'
                    or (select count(*) from json_object_keys(given.event::json))
                    > (select count(*) from jsonb_object_keys(given.payload))
                    or given.payload is null
                then coalesce(given.reason, event_refusal(given.event, given.payload, v_id_fields))
            end as reason
        from unnest(p_events, v_payloads, v_reasons) with ordinality as given (event, payload, reason, place)
    ),

    inserted as (
        insert into raw_event (event_id, dataset, event_hash, payload, received_at, recorded_by, available_at)
        select
            v_first_id + judged.place - 1,
            p_dataset,
            case cardinality(v_id_fields)
                -- What event_hash gives, without a call for each.
                when 1 then sha256(convert_to(jsonb_build_array(judged.payload #> v_id_path)::text, 'UTF8'))
                else event_hash(judged.payload, v_id_fields)
            end,
            judged.payload,
            v_now,
            caller(),
            v_now
        from judged
        where judged.reason is null
        -- Two calls with the same events wait for each other in one order, and never both at once.
        order by
            3,
            1
        on conflict on constraint an_event_is_recorded_once do nothing
        returning 1
    )

    select
        (select count(*) from inserted),
        coalesce(
            jsonb_agg(jsonb_build_object('index', judged.place - 1, 'reason', judged.reason) order by judged.place)
            filter (where judged.reason is not null),
            '[]'
        )
    into v_new, v_rejected
    from judged;
    return query
    select
        v_seen,
        v_new,
        v_seen - v_new - jsonb_array_length(v_rejected),
        v_rejected;
end
$$;
comment on function disarray.record_events(text, text[]) is
    'Put events into the inbox of a dataset, each one JSON object as text: how many were seen, how many of them are new, how many were '
    'recorded before, and which were rejected, by index from 0, and why. At most 10000 events and 5 MiB a call, and 64 KiB an event.';

create function disarray.event_id_fields(p_dataset text)
returns text[]
language plpgsql
stable
set search_path = disarray, pg_temp
as $$
declare
    v_rule json;
begin
    select defined.definition -> 'dataset' -> 'events'
    into v_rule
    from dataset_version as defined
    where
        defined.dataset = p_dataset
        and defined.superseded_at is null;
    if v_rule is null then
        raise exception 'there is no dataset % that takes events. Nothing was stored.', coalesce(quote_literal(left(p_dataset, 200)), 'NULL')
        using errcode = 'DA013', hint = 'Give the dataset an events table in disarray.toml; a worker that starts makes it known.';
    end if;
    return array(
        select field.name
        from json_array_elements_text(coalesce(v_rule -> 'id', '[]')) with ordinality as field (name, place)
        order by field.place
    );
end
$$;
comment on function disarray.event_id_fields(text) is 'The fields that tell events of a dataset apart; none where the whole event does.';

create function disarray.parse_event(p_event text, out payload jsonb, out reason text)
language plpgsql
immutable
as $$
begin
    payload := p_event::jsonb;
exception
    when data_exception then
        reason := format('it is not JSON that can be stored: %s', left(sqlerrm, 200));
    when program_limit_exceeded then
        reason := 'it is nested too deeply, at most 32 levels';
end
$$;
comment on function disarray.parse_event(text) is 'An event as JSON, or why it is none.';

create function disarray.event_refusal(p_event text, p_payload jsonb, p_id_fields text[])
returns text
language plpgsql
immutable
as $$
declare
    v_missing text;
    v_brackets integer;
begin
    if p_event is null or jsonb_typeof(p_payload) <> 'object' then
        return 'it is not a JSON object';
    end if;
    if octet_length(p_event) > 65536 then
        return format('it has %s bytes, at most 65536', octet_length(p_event));
    end if;
    -- A number with a large exponent is short here and very long in every text that is made of it.
    if p_event ~ '[eE][+-]?0*([4-9]\d\d|\d{4,})'
        and regexp_replace(p_event, '"([^"\\]|\\.)*"', '', 'g') ~ '[eE][+-]?0*([4-9]\d\d|\d{4,})'
    then
        return 'it has a number with an exponent of 400 or more';
    end if;
    if octet_length(p_payload::text) > 65536 then
        return format('written out it has %s bytes, at most 65536', octet_length(p_payload::text));
    end if;
    -- No deeper than it has brackets, and no name twice in an object below where there is none.
    v_brackets := octet_length(p_event) - octet_length(translate(p_event, '{[', ''));
    if v_brackets > 32 and jsonb_path_exists(p_payload, 'strict $.**{32 to last}') then
        return 'it is nested too deeply, at most 32 levels';
    end if;
    if disarray.has_repeated_name(p_event::json, v_brackets > 1) then
        return 'it has a name twice in one object';
    end if;
    select field.name
    into v_missing
    from unnest(p_id_fields) as field (name)
    where coalesce(p_payload #> string_to_array(field.name, '.'), 'null') = 'null'
    limit 1;
    if found then
        return format('it has no %s, which tells events apart', v_missing);
    end if;
    return null;
end
$$;
comment on function disarray.event_refusal(text, jsonb, text[]) is 'Why an event cannot be kept; NULL where it can.';

create function disarray.has_repeated_name(p_event json, p_is_nested boolean)
returns boolean
language plpgsql
immutable
as $$
begin
    if (select count(*) > count(distinct name) from json_object_keys(p_event) as own (name)) then
        return true;
    end if;
    if not p_is_nested then
        return false;
    end if;
    -- A name that is there twice is there once in jsonb: the object has more names than jsonb keeps of it.
    return exists (
        with recursive node (value) as (
            select p_event
            union all
            select child.value
            from node
            cross join lateral (
                select member.value
                from json_each(case when json_typeof(node.value) = 'object' then node.value else '{}' end) as member
                union all
                select element.value
                from json_array_elements(case when json_typeof(node.value) = 'array' then node.value else '[]' end) as element
            ) as child
            where json_typeof(child.value) in ('object', 'array')
        )

        select
        from node
        where
            json_typeof(node.value) = 'object'
            and (select count(*) > count(distinct name) from json_object_keys(node.value) as own (name))
    );
end
$$;
comment on function disarray.has_repeated_name(json, boolean) is
    'Whether an object of the event gives one name twice: jsonb would keep the last of them and say nothing.';

create function disarray.event_hash(p_payload jsonb, p_id_fields text[])
returns bytea
language sql
immutable
as $$
select sha256(convert_to(
    case
        when p_id_fields = '{}' then p_payload::text
        else (
            select jsonb_agg(p_payload #> string_to_array(field.name, '.') order by field.place)::text
            from unnest(p_id_fields) with ordinality as field (name, place)
        )
    end,
    'UTF8'
))
$$;
comment on function disarray.event_hash(jsonb, text[]) is 'What makes two events the same one.';

create function disarray.claim_raw_events(
    p_batch_no bigint,
    p_instance_name text,
    p_datasets text[],
    p_limit integer default 5000,
    p_lease_seconds integer default 300,
    p_incarnation bigint default null,
    p_max_attempts integer default 3
)
returns table (event_id bigint, dataset text, payload text, attempts integer)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock();
    v_incarnation bigint;
    v_dataset text;
    v_crashes integer;
begin
    if (p_limit between 1 and 10000 and p_lease_seconds between 1 and 86400 and p_max_attempts >= 1 and p_batch_no > 0) is not true then
        raise exception 'claim_raw_events takes a batch, a limit of 1 to 10000, a lease of 1 to 86400 seconds and 1 or more attempts. Nothing was claimed.'
        using errcode = 'DA001';
    end if;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    perform return_raw_events(v_now, p_instance_name, v_incarnation, p_max_attempts);
    perform note_dead_event_effects(v_now);
    -- One dataset at a time: the one whose first event has waited longest.
    select
        first_one.dataset,
        least(first_one.crashes, 2)
    into v_dataset, v_crashes
    from unnest(p_datasets) as served (dataset)
    cross join lateral (
        select
            waiting.dataset,
            waiting.crashes,
            waiting.available_at,
            waiting.event_id
        from raw_event as waiting
        where
            waiting.dataset = served.dataset
            and waiting.state = 'pending'
            and waiting.available_at <= v_now
        order by
            waiting.available_at,
            waiting.event_id
        limit 1
        for update skip locked
    ) as first_one
    order by
        first_one.available_at,
        first_one.event_id
    limit 1;
    return query
    with chosen as (
        select waiting.event_id
        from raw_event as waiting
        where
            waiting.dataset = v_dataset
            and waiting.state = 'pending'
            and waiting.available_at <= v_now
            and least(waiting.crashes, 2) = v_crashes
        order by
            waiting.available_at,
            waiting.event_id
        -- One of them may have ended a worker: among few it is found soon, and alone it takes nobody along.
        limit case v_crashes when 0 then p_limit when 1 then least(p_limit, 100) else 1 end
        for update skip locked
    ),

    claimed as (
        update raw_event as event
        set
            state = 'claimed',
            attempts = event.attempts + 1,
            batch_no = p_batch_no,
            claimed_by_instance_name = p_instance_name,
            claimed_incarnation = v_incarnation,
            lease_expires_at = v_now + make_interval(secs => p_lease_seconds)
        from chosen
        where event.event_id = chosen.event_id
        returning
            event.event_id,
            event.dataset,
            event.payload,
            event.attempts
    )

    select
        claimed.event_id,
        claimed.dataset,
        claimed.payload::text,
        claimed.attempts
    from claimed
    order by claimed.event_id;
end
$$;
comment on function disarray.claim_raw_events(bigint, text, text[], integer, integer, bigint, integer) is
    'Claim waiting events of one of these datasets for a batch, in the order in which they were sent. What a former life of the '
    'instance held, or whoever let its lease run out, goes back first, or is given up.';

create function disarray.return_raw_events(p_now timestamptz, p_instance_name text, p_incarnation bigint, p_max_attempts integer)
returns void
language sql
as $$
update disarray.raw_event as event
set
    state = (case when event.attempts >= p_max_attempts then 'dead' else 'pending' end)::disarray.raw_event_state,
    crashes = event.crashes + 1,
    available_at = p_now,
    reason = format('the worker that had it (%s) ended without an answer', event.claimed_by_instance_name),
    settled_at = case when event.attempts >= p_max_attempts then p_now end,
    claimed_by_instance_name = null,
    claimed_incarnation = null,
    lease_expires_at = null
where event.event_id in (
    select lost.event_id
    from disarray.raw_event as lost
    where
        lost.state = 'claimed'
        and (
            lost.lease_expires_at <= p_now
            or (lost.claimed_by_instance_name = p_instance_name and lost.claimed_incarnation < p_incarnation)
        )
    for update skip locked
)
$$;
comment on function disarray.return_raw_events(timestamptz, text, bigint, integer) is 'Take back the claims of those who are gone, counted as crashes.';

create function disarray.lock_raw_events(p_batch_no bigint, p_instance_name text, p_incarnation bigint, p_events integer)
returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := disarray.clock();
    v_incarnation constant bigint := disarray.living_incarnation(p_instance_name, p_incarnation);
    v_held integer;
begin
    select count(*)
    into v_held
    from (
        select
        from disarray.raw_event as event
        where
            event.batch_no = p_batch_no
            and event.state = 'claimed'
            and event.claimed_by_instance_name = p_instance_name
            and event.claimed_incarnation = v_incarnation
            and event.lease_expires_at > v_now
        for update
    ) as held;
    if v_held is distinct from p_events then
        raise exception '% holds % of the % events of batch %: the others were taken back. Nothing was changed.',
            quote_literal(p_instance_name), v_held, p_events, p_batch_no
        using errcode = 'DA002', hint = 'They are claimed again.';
    end if;
end
$$;
comment on function disarray.lock_raw_events(bigint, text, bigint, integer) is 'Lock the claimed events of a batch, or refuse where one of them is no longer held.';

create function disarray.settle_raw_events(
    p_batch_no bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_events integer,
    p_refused_ids bigint[] default '{}',
    p_reasons text[] default '{}',
    p_max_attempts integer default 3
)
returns table (done integer, waiting integer, dead integer)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock();
begin
    if (cardinality(p_refused_ids) = cardinality(p_reasons) and p_max_attempts >= 1) is not true then
        raise exception 'settle_raw_events needs a reason for each event that was refused, and 1 or more attempts. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    perform lock_raw_events(p_batch_no, p_instance_name, p_incarnation, p_events);
    return query
    with settled as (
        update raw_event as event
        set
            state = (
                case
                    when refused.event_id is null then 'done'
                    when event.attempts >= p_max_attempts then 'dead'
                    else 'pending'
                end
            )::raw_event_state,
            payload = case when refused.event_id is not null then event.payload end,
            reason = left(refused.reason, 1000),
            -- 1, 5, 25 minutes: by then the dataset may be described otherwise.
            available_at = case
                when refused.event_id is null then event.available_at
                else v_now + interval '1 minute' * 5 ^ least(event.attempts - 1, 4)
            end,
            settled_at = case when refused.event_id is null or event.attempts >= p_max_attempts then v_now end,
            claimed_by_instance_name = null,
            claimed_incarnation = null,
            lease_expires_at = null
        from raw_event as held
        left join unnest(p_refused_ids, p_reasons) as refused (event_id, reason) on held.event_id = refused.event_id
        where
            held.batch_no = p_batch_no
            and held.state = 'claimed'
            and event.event_id = held.event_id
        returning event.state
    )

    select
        (count(*) filter (where settled.state = 'done'))::integer,
        (count(*) filter (where settled.state = 'pending'))::integer,
        (count(*) filter (where settled.state = 'dead'))::integer
    from settled;
    perform note_dead_event_effects(v_now);
end
$$;
comment on function disarray.settle_raw_events(bigint, text, bigint, integer, bigint[], text[], integer) is
    'End the claims of a batch in the transaction that records its deliveries: done, but for those that were refused. They are tried '
    'again after 1 and 5 minutes, and given up when their attempts are used up.';

create function disarray.release_raw_events(p_batch_no bigint, p_instance_name text, p_incarnation bigint)
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_released integer;
begin
    perform living_incarnation(p_instance_name, p_incarnation);
    update raw_event as event
    set
        state = 'pending',
        attempts = event.attempts - 1,
        claimed_by_instance_name = null,
        claimed_incarnation = null,
        lease_expires_at = null
    where
        event.batch_no = p_batch_no
        and event.state = 'claimed'
        and event.claimed_by_instance_name = p_instance_name
        and event.claimed_incarnation = p_incarnation;
    get diagnostics v_released = row_count;
    return v_released;
end
$$;
comment on function disarray.release_raw_events(bigint, text, bigint) is
    'Give a batch back where no event is to blame: no attempt is counted. How many were still held.';

create function disarray.list_raw_events(
    p_state text default 'dead',
    p_dataset text default null,
    p_limit integer default 100,
    p_after text[] default null
)
returns table (
    event_id bigint,
    dataset text,
    state text,
    attempts integer,
    crashes integer,
    received_at timestamptz,
    settled_at timestamptz,
    reason text,
    payload text,
    batch_no bigint
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    event.event_id,
    event.dataset,
    event.state::text,
    event.attempts,
    event.crashes,
    event.received_at,
    event.settled_at,
    event.reason,
    event.payload::text,
    event.batch_no
from raw_event as event
where
    event.state::text = p_state
    and (p_dataset is null or event.dataset = p_dataset)
    and (p_after is null or event.event_id > p_after[1]::bigint)
order by event.event_id
limit p_limit
$$;
comment on function disarray.list_raw_events(text, text, integer, text[]) is
    'Events of one state in the order in which they were sent: those that were given up, unless another state is asked for. '
    'p_after has the number of the last event of the page before.';

create function disarray.count_raw_events()
returns table (dataset text, pending bigint, claimed bigint, dead bigint, oldest_pending_at timestamptz)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    event.dataset,
    count(*) filter (where event.state = 'pending'),
    count(*) filter (where event.state = 'claimed'),
    count(*) filter (where event.state = 'dead'),
    min(event.received_at) filter (where event.state = 'pending')
from raw_event as event
-- One index for each: what is done is by far the most, and is not looked at.
where event.state in ('pending', 'claimed', 'dead')
group by event.dataset
order by event.dataset
$$;
comment on function disarray.count_raw_events() is 'What is in the inbox and not done, by dataset.';

create function disarray.lock_dead_events(p_event_ids bigint[])
returns void
language plpgsql
as $$
declare
    v_other bigint;
begin
    if (cardinality(p_event_ids) between 1 and 10000) is not true then
        raise exception 'a decision is about 1 to 10000 events, not %. Nothing was changed.', coalesce(cardinality(p_event_ids)::text, 'NULL')
        using errcode = 'DA001';
    end if;
    perform
    from disarray.raw_event as event
    where event.event_id = any(p_event_ids)
    order by event.event_id
    for update;
    select given.event_id
    into v_other
    from unnest(p_event_ids) as given (event_id)
    where not exists (
        select
        from disarray.raw_event as dead
        where
            dead.event_id = given.event_id
            and dead.state = 'dead'
    )
    limit 1;
    if found then
        raise exception 'event % is no dead letter. Nothing was changed.', coalesce(v_other::text, 'NULL')
        using errcode = 'DA010', hint = 'disarray inbox dead-letters names those that are.';
    end if;
end
$$;
comment on function disarray.lock_dead_events(bigint[]) is 'Lock events that were given up until the decision about them is committed; refuse all if one is none.';

create function disarray.note_event_decision(p_event_type text, p_event_ids bigint[], p_reason text, p_by text)
returns void
language sql
set search_path = disarray, pg_temp
as $$
insert into ingest_event (occurred_at, event_type, metadata)
select
    clock(),
    p_event_type::ingest_event_event_type,
    decision_of(p_reason, p_by) || jsonb_build_object('dataset', dead.dataset, 'event_id', dead.event_id, 'error', dead.reason)
from raw_event as dead
where dead.event_id = any(p_event_ids)
$$;
comment on function disarray.note_event_decision(text, bigint[], text, text) is 'Write down what was decided about events, by whom and why.';

create function disarray.replay_raw_events(p_event_ids bigint[], p_reason text, p_by text)
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_replayed integer;
begin
    perform check_decision(p_reason, p_by);
    perform lock_dead_events(p_event_ids);
    perform note_event_decision('dead_letter_retried', p_event_ids, p_reason, p_by);
    -- It has all its attempts again; a crash in its history stays, and it is claimed alone.
    update raw_event as event
    set
        state = 'pending',
        attempts = 0,
        available_at = clock(),
        settled_at = null
    where event.event_id = any(p_event_ids);
    get diagnostics v_replayed = row_count;
    return v_replayed;
end
$$;
comment on function disarray.replay_raw_events(bigint[], text, text) is
    'Try events that were given up once more, with a full set of attempts: all or none; how many.';

create function disarray.discard_raw_events(p_event_ids bigint[], p_reason text, p_by text)
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_discarded integer;
begin
    perform check_decision(p_reason, p_by);
    perform lock_dead_events(p_event_ids);
    perform note_event_decision('dead_letter_discarded', p_event_ids, p_reason, p_by);
    update raw_event as event
    set
        state = 'discarded',
        settled_at = clock()
    where event.event_id = any(p_event_ids);
    get diagnostics v_discarded = row_count;
    return v_discarded;
end
$$;
comment on function disarray.discard_raw_events(bigint[], text, text) is
    'Take events that were given up off the list, all or none; how many. The same event sent again is known, and stays discarded.';

create function disarray.correct_raw_event(p_event_id bigint, p_event text, p_reason text, p_by text)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_wrong raw_event;
    v_id_fields text[];
    v_parsed record;
    v_refusal text;
    v_hash bytea;
    v_corrected_id bigint;
begin
    perform check_decision(p_reason, p_by);
    perform lock_dead_events(array[p_event_id]);
    select event.*
    into v_wrong
    from raw_event as event
    where event.event_id = p_event_id;
    v_id_fields := event_id_fields(v_wrong.dataset);
    select parsed.*
    into v_parsed
    from parse_event(p_event) as parsed;
    v_refusal := coalesce(v_parsed.reason, event_refusal(p_event, v_parsed.payload, v_id_fields));
    if v_refusal is not null then
        raise exception 'event % was not corrected: of what it would become, %. Nothing was changed.', p_event_id, v_refusal
        using errcode = 'DA001';
    end if;
    v_hash := event_hash(v_parsed.payload, v_id_fields);
    if v_hash = v_wrong.event_hash then
        perform replay_raw_events(array[p_event_id], p_reason, p_by);
        update raw_event as event
        set payload = v_parsed.payload
        where event.event_id = p_event_id;
        return p_event_id;
    end if;
    -- An event of its own: so both the wrong one and the right one are known when a program sends them again.
    perform discard_raw_events(array[p_event_id], p_reason, p_by);
    insert into raw_event (event_id, dataset, event_hash, payload, received_at, recorded_by, available_at)
    values (nextval('raw_event_seq'), v_wrong.dataset, v_hash, v_parsed.payload, v_now, caller(), v_now)
    on conflict on constraint an_event_is_recorded_once do nothing
    returning event_id into v_corrected_id;
    if v_corrected_id is null then
        raise exception 'event % was not corrected: what it would become is recorded already. Nothing was changed.', p_event_id
        using errcode = 'DA001', hint = 'Discard this one: disarray inbox discard.';
    end if;
    update raw_event as event
    set reason = format('corrected: it is event %s now', v_corrected_id)
    where event.event_id = p_event_id;
    return v_corrected_id;
end
$$;
comment on function disarray.correct_raw_event(bigint, text, text, text) is
    'Put another event in the place of one that was given up, to be tried: its number. That is the same one where what tells events apart '
    'is the same in both; else the old event is discarded.';

create function disarray.forget_raw_events(p_keep interval, p_is_rehearsal boolean default false)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_limit constant timestamptz := clock() - p_keep;
    v_forgotten bigint;
begin
    if (p_keep >= interval '1 day') is not true then
        raise exception 'events are remembered for a day at least, not %. Nothing was forgotten.', p_keep
        using errcode = 'DA001';
    end if;
    if p_is_rehearsal then
        select count(*)
        into v_forgotten
        from raw_event as event
        where
            event.state in ('done', 'discarded')
            and event.settled_at < v_limit;
        return v_forgotten;
    end if;
    delete from raw_event as event
    where
        event.state in ('done', 'discarded')
        and event.settled_at < v_limit;
    get diagnostics v_forgotten = row_count;
    return v_forgotten;
end
$$;
comment on function disarray.forget_raw_events(interval, boolean) is
    'Forget events that have been done or discarded for so long; how many. Sent again after that, one is new.';
