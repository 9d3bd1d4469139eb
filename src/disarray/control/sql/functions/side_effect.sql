-- The ledger of messages that leave: the intent is written in the transaction of its cause, sent by whoever claims it, and
-- settled with the answer. What is done is never sent again.

create function disarray.put_side_effect(
    p_hook_name text,
    p_cause disarray.hook_cause,
    p_subject_key text,
    p_dataset text,
    p_occasion text,
    p_summary text,
    p_details jsonb
)
returns integer
language plpgsql
as $$
declare
    v_now constant timestamptz := disarray.clock();
    v_noted integer;
begin
    insert into disarray.side_effect (
        idempotency_key, hook_name, cause, subject_key, dataset, summary, details, noted_at, available_at
    )
    values (
        -- As JSON, so that no two lists of names make the same text.
        encode(
            sha256(convert_to(jsonb_build_array(p_hook_name, p_cause, p_subject_key, p_dataset, p_occasion)::text, 'UTF8')),
            'hex'
        ),
        p_hook_name, p_cause, p_subject_key, p_dataset, left(p_summary, 1000), p_details, v_now, v_now
    )
    on conflict on constraint an_intent_is_noted_once do nothing;
    get diagnostics v_noted = row_count;
    return v_noted;
end
$$;
comment on function disarray.put_side_effect(text, disarray.hook_cause, text, text, text, text, jsonb) is
    'Note what one hook is to be told, once for each occasion; 0 where it is noted already.';

create function disarray.note_side_effects(
    p_cause text,
    p_subject_key text,
    p_dataset text,
    p_occasion text,
    p_summary text,
    p_details jsonb default '{}'
)
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    if p_cause is null or not p_cause = any(enum_range(null::hook_cause)::text[]) then
        raise exception 'no hook can be told of %. Nothing was noted.', coalesce(quote_literal(left(p_cause, 200)), 'NULL')
        using errcode = 'DA001';
    end if;
    if (octet_length(p_occasion) between 1 and 4000 and p_summary <> '' and jsonb_typeof(p_details) = 'object') is not true
        or octet_length(p_details::text) > 1048576
    then
        raise exception 'a cause has an occasion of 1 to 4000 bytes, a summary, and details that are a JSON object of at most 1 MiB. Nothing was noted.'
        using errcode = 'DA001';
    end if;
    return (
        select coalesce(
            sum(put_side_effect(
                asking.hook_name, p_cause::hook_cause, p_subject_key, p_dataset, p_occasion, p_summary, p_details
            )),
            0
        )
        from hooks_of(p_cause::hook_cause, p_subject_key, p_dataset) as asking
    );
end
$$;
comment on function disarray.note_side_effects(text, text, text, text, text, jsonb) is
    'Note what every hook that asked for it is to be told, in the transaction of its cause; how many were not told of it before. '
    'The occasion tells two causes of one kind in one subject and dataset apart: noted twice, it is sent once.';

create function disarray.is_larger(p_span disarray.restatement, p_limit jsonb)
returns boolean
language sql
stable
as $$
-- A value that is gone, or a change of which nothing is known, is larger than every limit.
select coalesce(
    greatest(
        abs(telemetry.number_of(p_span.least_float, null)),
        abs(telemetry.number_of(p_span.greatest_float, null)),
        abs(p_span.least_int),
        abs(p_span.greatest_int)
    ) > p_limit::numeric,
    true
)
or coalesce(p_span.new_float::text, p_span.new_int::text) is null
$$;
comment on function disarray.is_larger(disarray.restatement, jsonb) is 'Whether a value of a restated span changed by more than a limit; without one, yes.';

create function disarray.span_document(p_span disarray.restatement)
returns jsonb
language sql
stable
as $$
select jsonb_build_object(
    'dataset', p_span.dataset,
    'subject_key', p_span.subject_key,
    'metric', p_span.metric,
    'channel', p_span.channel,
    'changed_from', p_span.changed_from,
    'changed_to', p_span.changed_to,
    'first_old', coalesce(to_jsonb(p_span.first_old_int), to_jsonb(p_span.first_old_float)),
    'first_new', coalesce(to_jsonb(p_span.first_new_int), to_jsonb(p_span.first_new_float)),
    'old', coalesce(to_jsonb(p_span.old_int), to_jsonb(p_span.old_float)),
    'new', coalesce(to_jsonb(p_span.new_int), to_jsonb(p_span.new_float)),
    'delta', coalesce(to_jsonb(p_span.delta_int), to_jsonb(p_span.delta_float)),
    'least', coalesce(to_jsonb(p_span.least_int), to_jsonb(p_span.least_float)),
    'greatest', coalesce(to_jsonb(p_span.greatest_int), to_jsonb(p_span.greatest_float)),
    'source_uris', p_span.source_uris,
    'is_redefined', p_span.is_redefined,
    'restated_at', p_span.restated_at
)
$$;
comment on function disarray.span_document(disarray.restatement) is 'A restated span as `disarray restatements --json` tells it.';

create function disarray.note_restatement_effects(
    p_dataset text,
    p_subject_key text,
    p_run_id text,
    p_restatement_ids bigint[]
)
returns void
language plpgsql
set timezone = 'UTC'
set extra_float_digits = 1
as $$
declare
    v_most_spans constant integer := 100;
    v_most_uris constant integer := 20;
    v_hook record;
    v_larger bigint;
    v_spans jsonb;
begin
    for v_hook in
        select
            listed.hook_name,
            listed.larger_than
        from disarray.hooks_of('restatement', p_subject_key, p_dataset) as listed
    loop
        select
            count(*),
            jsonb_agg(
                -- Each span names all files of the commit, which may be thousands.
                disarray.span_document(larger.span) || jsonb_build_object(
                    'source_uris', (larger.span).source_uris[1:v_most_uris],
                    'source_count', coalesce(cardinality((larger.span).source_uris), 0)
                )
                order by larger.place
            ) filter (where larger.place <= v_most_spans)
        into v_larger, v_spans
        from (
            select
                span,
                row_number() over (order by span.restatement_id) as place
            from disarray.restatement as span
            where
                span.restatement_id = any(p_restatement_ids)
                and disarray.is_larger(span, coalesce(v_hook.larger_than -> span.metric, v_hook.larger_than -> '*'))
        ) as larger;
        if v_larger > 0 then
            perform disarray.put_side_effect(
                v_hook.hook_name,
                'restatement',
                p_subject_key,
                p_dataset,
                'run ' || p_run_id,
                format('published values of %s in %s changed in %s of time', p_subject_key, p_dataset, disarray.counted(v_larger, 'span')),
                jsonb_build_object(
                    'run_id', p_run_id,
                    'spans', v_spans,
                    'span_count', v_larger,
                    'restated_spans', cardinality(p_restatement_ids)
                )
            );
        end if;
    end loop;
end
$$;
comment on function disarray.note_restatement_effects(text, text, text, bigint[]) is
    'Note for each hook those of the restated spans of a commit that are larger than its limits: the first 100 of them, and how many there are.';

create function disarray.counted(p_number bigint, p_noun text)
returns text
language sql
immutable
as $$
select p_number || ' ' || p_noun || case when p_number = 1 then '' else 's' end
$$;
comment on function disarray.counted(bigint, text) is 'A number and its noun.';

create function disarray.parked_uris(p_subject_key text, p_dataset json)
returns text[]
language plpgsql
stable
as $$
declare
    v_name constant text := p_dataset ->> 'dataset';
begin
    return array(
        select distinct parked.source_uri
        from disarray.fragment as parked
        where
            parked.subject_key = p_subject_key
            and parked.dataset = v_name
            and parked.state = 'parked'
            and parked.source_uri in (
                select added.source_uri
                from json_to_recordset(p_dataset -> 'added') as added (source_uri text, state text)
                where added.state = 'parked'
            )
    );
end
$$;
comment on function disarray.parked_uris(text, json) is 'Of the files of which a commit parks readings, those that have some in quarantine now.';

create function disarray.note_quarantine_effects(p_source_uris text[], p_part text, p_since timestamptz)
returns void
language plpgsql
set timezone = 'UTC'
as $$
begin
    perform disarray.note_side_effects(
        'quarantine',
        waiting.subject_key,
        waiting.dataset,
        concat_ws(' ', waiting.part, 'of', given.source_uri, 'since', waiting.parked_at),
        format('part of %s waits for a decision: %s', given.source_uri, waiting.why),
        jsonb_build_object(
            'source_uri', given.source_uri,
            'part', waiting.part,
            'why', waiting.why,
            'message', waiting.message,
            'segments', waiting.segments,
            'readings', waiting.readings,
            'first_at', disarray.instant_of(waiting.first_us),
            'last_at', disarray.instant_of(waiting.last_us),
            'parked_at', waiting.parked_at
        )
    )
    from unnest(p_source_uris) as given (source_uri)
    cross join lateral disarray.list_quarantine(given.source_uri) as waiting
    where
        waiting.part = p_part
        and waiting.parked_at = p_since;
end
$$;
comment on function disarray.note_quarantine_effects(text[], text, timestamptz) is 'Note what hooks are to be told of files of which something waits since this moment.';

create function disarray.note_dead_letter_effects(p_item disarray.ingest_queue, p_attempts integer, p_error_message text)
returns void
language plpgsql
as $$
begin
    if disarray.has_hook('dead_letter') then
        perform disarray.note_side_effects(
            'dead_letter',
            p_item.subject_key,
            coalesce(
                p_item.dataset,
                p_item.metadata ->> 'dataset',
                (select file.dataset from disarray.file_info as file where file.source_uri = p_item.source_uri)
            ),
            'item ' || p_item.queue_id,
            format(
                '%s was given up after %s: %s',
                coalesce(p_item.source_uri, p_item.kind || ' of ' || p_item.subject_key),
                disarray.counted(p_attempts, 'attempt'),
                left(coalesce(p_error_message, 'no reason was given'), 500)
            ),
            jsonb_build_object(
                'queue_id', p_item.queue_id,
                'source_uri', p_item.source_uri,
                'kind', p_item.kind,
                'asked_for', p_item.reason,
                'attempts', p_attempts,
                'error', left(p_error_message, 4000)
            )
        );
    end if;
end
$$;
comment on function disarray.note_dead_letter_effects(disarray.ingest_queue, integer, text) is 'Note what hooks are to be told of an item that was given up.';

create function disarray.note_dead_event_effects(p_since timestamptz)
returns void
language plpgsql
as $$
begin
    if disarray.has_hook('dead_letter') then
        perform disarray.note_side_effects(
            'dead_letter',
            null,
            dead.dataset,
            format('events of batch %s from %s on', dead.batch_no, dead.first_id),
            format('%s of the inbox of %s could not be read and were given up: %s', disarray.counted(dead.events, 'event'), dead.dataset, dead.reason),
            jsonb_build_object(
                'batch_no', dead.batch_no,
                'events', dead.events,
                'event_ids', to_jsonb(dead.event_ids[1:100]),
                'error', dead.reason
            )
        )
        from (
            select
                event.dataset,
                event.batch_no,
                count(*) as events,
                min(event.event_id) as first_id,
                min(event.reason) as reason,
                array_agg(event.event_id order by event.event_id) as event_ids
            from disarray.raw_event as event
            where
                event.state = 'dead'
                and event.settled_at = p_since
            group by
                event.dataset,
                event.batch_no
        ) as dead;
    end if;
end
$$;
comment on function disarray.note_dead_event_effects(timestamptz) is 'Note what hooks are to be told of events of the inbox that were given up at this moment, one message a batch.';

create function disarray.note_conditions(p_every_seconds integer default 60)
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
set timezone = 'UTC'
as $$
declare
    v_now constant timestamptz := clock();
    v_hook hook;
    v_noted integer := 0;
begin
    for v_hook in
        select living.*
        from hook as living
        where
            living.ended_at is null
            and living.causes && array['no_data_since', 'stale_longer_than']::hook_cause[]
            and coalesce(living.checked_at <= v_now - make_interval(secs => p_every_seconds), true)
        order by living.hook_name
        -- Not "for update": a commit that notes something for the hook must not wait for it.
        for no key update skip locked
    loop
        update hook as looked
        set checked_at = v_now
        where looked.hook_name = v_hook.hook_name;
        if v_hook.no_data_since is not null then
            v_noted := v_noted + note_silence(v_hook, v_now);
        end if;
        if v_hook.stale_longer_than is not null then
            v_noted := v_noted + note_staleness(v_hook, v_now);
        end if;
    end loop;
    return v_noted;
end
$$;
comment on function disarray.note_conditions(integer) is
    'Look for subjects that are silent or stale for too long, for hooks for which nobody has looked for so many seconds; how many are told of. '
    'Each is told once for each time that it falls silent or stale.';

create function disarray.note_silence(p_hook disarray.hook, p_now timestamptz)
returns integer
language sql
as $$
select coalesce(
    sum(disarray.put_side_effect(
        p_hook.hook_name,
        'no_data_since',
        known.subject_key,
        known.dataset,
        'last reading ' || known.last_us,
        format('no reading of %s in %s since %s', known.subject_key, known.dataset, disarray.instant_of(known.last_us)),
        jsonb_build_object('last_reading_at', disarray.instant_of(known.last_us), 'longer_than_seconds', extract(epoch from p_hook.no_data_since))
    )),
    0
)
from disarray.list_subjects(p_limit => 2147483647) as known
where
    disarray.matches_pattern(known.subject_key, p_hook.subject_patterns)
    and disarray.matches_pattern(known.dataset, p_hook.dataset_patterns)
    and disarray.instant_of(known.last_us) + p_hook.no_data_since <= p_now
    -- Silent for longer than anybody has listened: an old import, or a tool that is no more.
    and disarray.instant_of(known.last_us) + p_hook.no_data_since >= p_hook.watched_since
$$;
comment on function disarray.note_silence(disarray.hook, timestamptz) is 'Note the subjects whose newest reading is too old, once for each newest reading.';

create function disarray.note_staleness(p_hook disarray.hook, p_now timestamptz)
returns integer
language sql
as $$
select coalesce(
    sum(disarray.put_side_effect(
        p_hook.hook_name,
        'stale_longer_than',
        stale.subject_key,
        stale.dataset,
        'dirty range ' || stale.range_id,
        format('numbers of %s are stale from %s on, since %s', stale.subject_key, stale.stale_from, stale.stale_since),
        jsonb_build_object(
            'stale_from', stale.stale_from,
            'stale_since', stale.stale_since,
            'longer_than_seconds', extract(epoch from p_hook.stale_longer_than)
        )
    )),
    0
)
from (
    select
        open.subject_key,
        open.dataset,
        min(open.range_id) as range_id,
        min(open.range_start) as stale_from,
        min(open.created_at) as stale_since
    from disarray.dirty_range as open
    where open.resolved_at is null
    group by
        open.subject_key,
        open.dataset
) as stale
where
    disarray.matches_pattern(stale.subject_key, p_hook.subject_patterns)
    and (
        '*' = any(p_hook.dataset_patterns)
        or stale.dataset is null
        or disarray.matches_pattern(stale.dataset, p_hook.dataset_patterns)
    )
    and stale.stale_since + p_hook.stale_longer_than <= p_now
$$;
comment on function disarray.note_staleness(disarray.hook, timestamptz) is 'Note the subjects that have been stale for too long, once for the oldest open range.';

create function disarray.claim_side_effect(
    p_hook_name text,
    p_definition_digest text,
    p_instance_name text,
    p_incarnation bigint,
    p_lease_seconds integer,
    p_max_attempts integer
)
returns table (
    effect_id bigint,
    idempotency_key text,
    hook_name text,
    cause text,
    subject_key text,
    dataset text,
    summary text,
    details jsonb,
    noted_at timestamptz,
    attempts integer,
    accepted text[],
    fence bigint
)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock();
    v_incarnation bigint;
begin
    if (p_lease_seconds between 1 and 86400 and p_max_attempts >= 1) is not true then
        raise exception 'claim_side_effect takes a lease of 1 to 86400 seconds and 1 or more attempts. Nothing was claimed.'
        using errcode = 'DA001';
    end if;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    perform return_side_effects(p_hook_name, p_instance_name, v_incarnation, p_max_attempts, v_now);
    return query
    update side_effect as effect
    set
        state = 'sending',
        attempts = effect.attempts + 1,
        claimed_by_instance_name = p_instance_name,
        claimed_incarnation = v_incarnation,
        fence = nextval('disarray.side_effect_fence_seq'),
        lease_expires_at = v_now + make_interval(secs => p_lease_seconds)
    where effect.effect_id = (
        select waiting.effect_id
        from side_effect as waiting
        where
            waiting.hook_name = p_hook_name
            and waiting.state = 'pending'
            and waiting.available_at <= v_now
            -- Whoever has another definition would send to somebody else.
            and exists (
                select
                from hook as living
                where
                    living.hook_name = p_hook_name
                    and living.ended_at is null
                    and living.definition_digest = p_definition_digest
            )
        order by
            waiting.available_at,
            waiting.effect_id
        limit 1
        for update skip locked
    )
    returning
        effect.effect_id,
        effect.idempotency_key,
        effect.hook_name,
        effect.cause::text,
        effect.subject_key,
        effect.dataset,
        effect.summary,
        effect.details,
        effect.noted_at,
        effect.attempts,
        effect.accepted,
        effect.fence;
end
$$;
comment on function disarray.claim_side_effect(text, text, text, bigint, integer, integer) is
    'Claim the next message of a hook: one row, none where nothing is due. What a former life of the instance had, or whoever let its lease '
    'run out, goes back first, or is given up: it may have arrived, and has its key.';

create function disarray.return_side_effects(
    p_hook_name text,
    p_instance_name text,
    p_incarnation bigint,
    p_max_attempts integer,
    p_now timestamptz
)
returns void
language sql
as $$
update disarray.side_effect as effect
set
    state = (case when effect.attempts >= p_max_attempts then 'dead' else 'pending' end)::disarray.side_effect_state,
    available_at = p_now,
    reason = format('the worker that was sending it (%s) ended without an answer; it may have arrived', effect.claimed_by_instance_name),
    settled_at = case when effect.attempts >= p_max_attempts then p_now end,
    claimed_by_instance_name = null,
    claimed_incarnation = null,
    fence = null,
    lease_expires_at = null
where effect.effect_id in (
    select lost.effect_id
    from disarray.side_effect as lost
    where
        lost.state = 'sending'
        and lost.hook_name = p_hook_name
        and (
            lost.lease_expires_at <= p_now
            or (lost.claimed_by_instance_name = p_instance_name and lost.claimed_incarnation < p_incarnation)
        )
    for update skip locked
)
$$;
comment on function disarray.return_side_effects(text, text, bigint, integer, timestamptz) is 'Take back what those were sending who are gone.';

create function disarray.settle_side_effect(
    p_effect_id bigint,
    p_fence bigint,
    p_is_done boolean,
    p_answer_status text,
    p_answer text,
    p_reason text,
    p_accepted text[],
    p_retry_seconds float8,
    p_max_attempts integer
)
returns text
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_state text;
begin
    if (p_is_done is not null and p_retry_seconds >= 0 and p_max_attempts >= 1 and (p_is_done or p_reason is not null)) is not true then
        raise exception 'settle_side_effect takes an answer, or a reason and a delay of 0 or more seconds. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    update side_effect as effect
    set
        state = (
            case
                when p_is_done then 'done'
                when effect.attempts >= p_max_attempts then 'dead'
                else 'pending'
            end
        )::side_effect_state,
        accepted = p_accepted,
        answer_status = left(p_answer_status, 200),
        answer = left(p_answer, 1024),
        reason = left(p_reason, 1000),
        available_at = case when p_is_done then effect.available_at else v_now + make_interval(secs => p_retry_seconds) end,
        settled_at = case when p_is_done or effect.attempts >= p_max_attempts then v_now end,
        claimed_by_instance_name = null,
        claimed_incarnation = null,
        fence = null,
        lease_expires_at = null
    where
        effect.effect_id = p_effect_id
        and effect.state = 'sending'
        -- The fence alone: an answer that came after the lease and before anybody else is worth keeping.
        and effect.fence = p_fence
    returning effect.state::text into v_state;
    if not found then
        raise exception 'side effect % is no longer held with fence %: another worker has it, or it was settled. Nothing was changed.',
            p_effect_id, p_fence
        using errcode = 'DA002', hint = 'Its receiver knows it by its key.';
    end if;
    return v_state;
end
$$;
comment on function disarray.settle_side_effect(bigint, bigint, boolean, text, text, text, text[], float8, integer) is
    'Record what became of a message that was claimed: done, tried again after so many seconds, or dead. Its state.';

create function disarray.release_side_effect(p_effect_id bigint, p_fence bigint)
returns boolean
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    update side_effect as effect
    set
        state = 'pending',
        attempts = effect.attempts - 1,
        claimed_by_instance_name = null,
        claimed_incarnation = null,
        fence = null,
        lease_expires_at = null
    where
        effect.effect_id = p_effect_id
        and effect.state = 'sending'
        and effect.fence = p_fence;
    return found;
end
$$;
comment on function disarray.release_side_effect(bigint, bigint) is 'Give back a message of which nothing was sent; no attempt is counted. Whether it was still held.';

create function disarray.list_side_effects(
    p_state text default null,
    p_hook_name text default null,
    p_limit integer default 100,
    p_after text[] default null
)
returns table (
    effect_id bigint,
    idempotency_key text,
    hook_name text,
    cause text,
    subject_key text,
    dataset text,
    summary text,
    details jsonb,
    noted_at timestamptz,
    state text,
    attempts integer,
    available_at timestamptz,
    claimed_by_instance_name text,
    accepted text[],
    answer_status text,
    answer text,
    reason text,
    settled_at timestamptz
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    effect.effect_id,
    effect.idempotency_key,
    effect.hook_name,
    effect.cause::text,
    effect.subject_key,
    effect.dataset,
    effect.summary,
    effect.details,
    effect.noted_at,
    effect.state::text,
    effect.attempts,
    effect.available_at,
    effect.claimed_by_instance_name,
    effect.accepted,
    effect.answer_status,
    effect.answer,
    effect.reason,
    effect.settled_at
from side_effect as effect
where
    (p_state is null or effect.state::text = p_state)
    and (p_hook_name is null or effect.hook_name = p_hook_name)
    and (p_after is null or effect.effect_id > p_after[1]::bigint)
order by effect.effect_id
limit p_limit
$$;
comment on function disarray.list_side_effects(text, text, integer, text[]) is
    'Messages in the order in which they were noted, of one state or hook where one is named. p_after has the number of the last of the page before.';

create function disarray.count_side_effects()
returns jsonb
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select jsonb_build_object(
    'pending', count(*) filter (where effect.state = 'pending'),
    'sending', count(*) filter (where effect.state = 'sending'),
    'dead', count(*) filter (where effect.state = 'dead'),
    'oldest_seconds', round(extract(epoch from clock() - min(effect.noted_at) filter (where effect.state <> 'dead'))::numeric, 3)
)
from side_effect as effect
-- One index for each: what is done is by far the most, and is not looked at.
where effect.state in ('pending', 'sending', 'dead')
$$;
comment on function disarray.count_side_effects() is 'How many messages wait, are being sent, or were given up, and how long the oldest has waited.';

create function disarray.resend_side_effects(p_effect_ids bigint[], p_reason text, p_by text)
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_other record;
    v_resent integer;
begin
    perform check_decision(p_reason, p_by);
    if (cardinality(p_effect_ids) between 1 and 10000) is not true then
        raise exception 'a decision is about 1 to 10000 side effects, not %. Nothing was changed.', coalesce(cardinality(p_effect_ids)::text, 'NULL')
        using errcode = 'DA001';
    end if;
    perform
    from side_effect as effect
    where effect.effect_id = any(p_effect_ids)
    order by effect.effect_id
    for update;
    select
        given.effect_id,
        effect.state,
        effect.hook_name,
        living.ended_at
    into v_other
    from unnest(p_effect_ids) as given (effect_id)
    left join side_effect as effect on given.effect_id = effect.effect_id
    left join hook as living on effect.hook_name = living.hook_name
    where
        effect.state is distinct from 'dead'
        or living.ended_at is not null
    limit 1;
    if found and v_other.state is distinct from 'dead' then
        raise exception 'side effect % was not given up (%). Nothing was changed.',
            coalesce(v_other.effect_id::text, 'NULL'), coalesce('it is ' || v_other.state, 'there is none of this number')
        using errcode = 'DA010', hint = 'disarray hook effects --state dead lists those that were.';
    elsif found then
        raise exception 'side effect % is for the hook %, which is no longer configured. Nothing was changed.', v_other.effect_id, v_other.hook_name
        using errcode = 'DA001', hint = 'Configure the hook and start a worker, then send it again.';
    end if;
    insert into ingest_event (occurred_at, event_type, subject_key, metadata)
    select
        v_now,
        'side_effect_resent',
        effect.subject_key,
        decision_of(p_reason, p_by) || jsonb_build_object('effect_id', effect.effect_id, 'hook_name', effect.hook_name, 'error', effect.reason)
    from side_effect as effect
    where effect.effect_id = any(p_effect_ids);
    update side_effect as effect
    set
        state = 'pending',
        attempts = 0,
        available_at = v_now,
        settled_at = null
    where effect.effect_id = any(p_effect_ids);
    get diagnostics v_resent = row_count;
    return v_resent;
end
$$;
comment on function disarray.resend_side_effects(bigint[], text, text) is
    'Send messages that were given up once more, under their keys and with a full set of attempts: all or none; how many.';

create function disarray.forget_side_effects(p_keep interval, p_is_rehearsal boolean default false)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_limit constant timestamptz := clock() - p_keep;
    v_old bigint[];
begin
    if (p_keep >= interval '1 day') is not true then
        raise exception 'messages that were sent are remembered for a day at least, not %. Nothing was forgotten.', p_keep
        using errcode = 'DA001';
    end if;
    v_old := array(
        select effect.effect_id
        from side_effect as effect
        where
            effect.state = 'done'
            and effect.settled_at < v_limit
            -- As long as a subject stays silent or stale, what was told of it keeps it from being told again.
            and (
                effect.cause not in ('no_data_since', 'stale_longer_than')
                or exists (
                    select
                    from side_effect as newer
                    where
                        newer.hook_name = effect.hook_name
                        and newer.cause = effect.cause
                        and newer.subject_key = effect.subject_key
                        and newer.dataset is not distinct from effect.dataset
                        and newer.effect_id > effect.effect_id
                )
            )
    );
    if not p_is_rehearsal then
        delete from side_effect as effect
        where effect.effect_id = any(v_old);
    end if;
    return cardinality(v_old);
end
$$;
comment on function disarray.forget_side_effects(interval, boolean) is 'Forget messages that have been done for so long; how many.';
