create function disarray.register_instance(
    p_instance_name text,
    p_subject_patterns text[] default null,
    p_metadata jsonb default '{}'
)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_incarnation bigint;
begin
    perform check_instance(p_instance_name);
    perform check_metadata(p_metadata);
    perform check_patterns(p_subject_patterns);
    insert into instance as known (instance_name, incarnation, subject_patterns, registered_at, last_seen_at, metadata)
    values (p_instance_name, nextval('incarnation_seq'), coalesce(p_subject_patterns, '{*}'), v_now, v_now, p_metadata)
    on conflict (instance_name) do update
    set
        incarnation = excluded.incarnation,
        subject_patterns = coalesce(p_subject_patterns, known.subject_patterns),
        registered_at = excluded.registered_at,
        last_seen_at = excluded.last_seen_at,
        metadata = excluded.metadata
    returning known.incarnation into v_incarnation;

    insert into ingest_event (occurred_at, event_type, instance_name, metadata)
    values (v_now, 'instance_registered', p_instance_name, jsonb_build_object('incarnation', v_incarnation));
    perform provision_event_partitions();
    -- The former life of this name is over: its subjects are free at once, not when their leases run out.
    perform reap_subjects(v_now, p_instance_name);
    return v_incarnation;
end
$$;
comment on function disarray.register_instance(text, text[], jsonb) is
    'Begin a new life of an instance: the incarnation that its calls carry. Claims of its former life go back, counted as crashes. '
    'Without patterns the instance keeps those it has, or serves every subject.';

create function disarray.bind_instance(p_instance_name text, p_subject_patterns text[], p_by text)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform check_patterns(coalesce(p_subject_patterns, '{}'));
    update instance as known
    set subject_patterns = p_subject_patterns
    where known.instance_name = p_instance_name;
    if not found then
        raise exception 'instance % is not registered. Nothing was changed.', quote_literal(p_instance_name)
        using errcode = 'DA004', hint = 'disarray status lists the instances that are.';
    end if;
    insert into ingest_event (occurred_at, event_type, instance_name, metadata)
    values (clock(), 'instance_bound', p_instance_name, jsonb_build_object('patterns', p_subject_patterns, 'by', p_by, 'role', caller()));
end
$$;
comment on function disarray.bind_instance(text, text[], text) is
    'Change which subjects an instance serves. What it has claimed now is finished first.';

create function disarray.state_of(p_instance disarray.instance)
returns text
language sql
immutable
as $$
select case
    when p_instance.draining_incarnation = p_instance.incarnation then 'draining'
    when p_instance.paused_at is not null then 'paused'
    else 'active'
end
$$;
comment on function disarray.state_of(disarray.instance) is
    'active: it claims. paused: it claims nothing until it is resumed. draining: nothing more in this life.';

create function disarray.instance_state(p_instance_name text)
returns text
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select state_of(known)
from instance as known
where known.instance_name = p_instance_name
$$;
comment on function disarray.instance_state(text) is
    'Whether an instance claims (active) or not (paused, draining); NULL where it never registered.';

create function disarray.pause_instance(p_instance_name text, p_reason text, p_by text)
returns void
language sql
security definer
set search_path = disarray, pg_temp
set lock_timeout = '10s'
as $$
select set_instance_state(p_instance_name, 'paused', p_reason, p_by)
$$;
comment on function disarray.pause_instance(text, text, text) is
    'Let an instance claim nothing more until it is resumed, also after a restart. What it has claimed it finishes. '
    'Once this is committed, no claim comes after it.';

create function disarray.drain_instance(p_instance_name text, p_reason text, p_by text)
returns void
language sql
security definer
set search_path = disarray, pg_temp
set lock_timeout = '10s'
as $$
select set_instance_state(p_instance_name, 'draining', p_reason, p_by)
$$;
comment on function disarray.drain_instance(text, text, text) is
    'Let this life of an instance finish what it has claimed and claim nothing more; its next life claims again.';

create function disarray.resume_instance(p_instance_name text, p_reason text, p_by text)
returns void
language sql
security definer
set search_path = disarray, pg_temp
set lock_timeout = '10s'
as $$
select set_instance_state(p_instance_name, 'active', p_reason, p_by)
$$;
comment on function disarray.resume_instance(text, text, text) is 'Let an instance that is paused or draining claim again.';

create function disarray.set_instance_state(p_instance_name text, p_state text, p_reason text, p_by text)
returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := disarray.clock();
begin
    perform disarray.check_decision(p_reason, p_by);
    -- Claims of this instance that are under way end first: what they claim was claimed before.
    perform
    from disarray.instance as known
    where known.instance_name = p_instance_name
    for update;
    update disarray.instance as known
    set
        paused_at = case p_state
            when 'paused' then coalesce(known.paused_at, v_now)
            when 'draining' then known.paused_at
        end,
        draining_incarnation = case p_state
            when 'draining' then known.incarnation
            when 'paused' then known.draining_incarnation
        end
    where known.instance_name = p_instance_name;
    if not found then
        raise exception 'instance % is not registered. Nothing was changed.', quote_literal(left(p_instance_name, 200))
        using errcode = 'DA004', hint = 'disarray workers list names those that are.';
    end if;
    insert into disarray.ingest_event (occurred_at, event_type, instance_name, metadata)
    values (
        v_now,
        case p_state
            when 'paused' then 'instance_paused'
            when 'draining' then 'instance_draining'
            else 'instance_resumed'
        end::disarray.ingest_event_event_type,
        p_instance_name,
        decision_of(p_reason, p_by)
    );
end
$$;
comment on function disarray.set_instance_state(text, text, text, text) is 'The work behind pause, drain and resume.';

create function disarray.check_instance(p_instance_name text)
returns void
language plpgsql
immutable
as $$
begin
    if p_instance_name is null
        or p_instance_name = ''
        or octet_length(p_instance_name) > 128
        or p_instance_name ~ '[\u0001-\u001f\u007f-\u009f]'
    then
        raise exception 'instance name % cannot be used: it must have 1 to 128 bytes and no control characters. Nothing was changed.',
            coalesce(quote_literal(left(p_instance_name, 200)), 'NULL')
        using errcode = 'DA001';
    end if;
end
$$;
comment on function disarray.check_instance(text) is 'Refuse an instance name that could not be stored or printed safely.';

create function disarray.check_patterns(p_subject_patterns text[])
returns void
language plpgsql
immutable
as $$
begin
    if p_subject_patterns = '{}'
        or cardinality(p_subject_patterns) > 1000
        or exists (
            select
            from unnest(p_subject_patterns) as given (pattern)
            where coalesce(octet_length(given.pattern), 0) not between 1 and 256
        )
    then
        raise exception 'subject patterns cannot be used: 1 to 1000 of them, each with 1 to 256 bytes. Nothing was changed.'
        using errcode = 'DA001', hint = 'Use globs such as TOOL0* or CELL-??.';
    end if;
end
$$;
comment on function disarray.check_patterns(text[]) is 'Refuse patterns that match nothing or cost too much to match.';

create function disarray.matches_pattern(p_subject_key text, p_subject_patterns text[])
returns boolean
language sql
immutable
as $$
select
    '*' = any(p_subject_patterns)
    or exists (
        select
        from unnest(p_subject_patterns) as glob (pattern)
        where p_subject_key like replace(replace(regexp_replace(glob.pattern, '([\\%_])', '\\\1', 'g'), '*', '%'), '?', '_')
    )
$$;
comment on function disarray.matches_pattern(text, text[]) is 'Whether a subject is matched by one of the globs (* any text, ? one character).';

create function disarray.living_incarnation(p_instance_name text, p_incarnation bigint)
returns bigint
language plpgsql
as $$
declare
    v_now constant timestamptz := disarray.clock();
    v_incarnation bigint;
    v_last_seen_at timestamptz;
begin
    select
        known.incarnation,
        known.last_seen_at
    into v_incarnation, v_last_seen_at
    from disarray.instance as known
    where known.instance_name = p_instance_name;
    if v_last_seen_at < v_now - interval '5 seconds' then
        update disarray.instance as known
        set last_seen_at = v_now
        where known.instance_name = p_instance_name;
    end if;
    if v_incarnation is null and p_incarnation is null then
        return disarray.register_instance(p_instance_name);
    end if;
    if p_incarnation is distinct from v_incarnation and p_incarnation is not null then
        raise exception 'instance % was started again since: this life of it (%) is over and can change nothing.',
            quote_literal(p_instance_name), p_incarnation
        using errcode = 'DA003', hint = 'Stop this process. What it had claimed went back to the queue.';
    end if;
    return v_incarnation;
end
$$;
comment on function disarray.living_incarnation(text, bigint) is
    'The present life of an instance, or an error for a former one. A caller that names no incarnation is taken for the present one.';

create function disarray.list_instances()
returns table (
    instance_name text,
    incarnation bigint,
    subject_patterns text[],
    registered_at timestamptz,
    last_seen_at timestamptz,
    held_subjects bigint,
    claimed_items bigint,
    state text,
    paused_at timestamptz
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.instance_name,
    known.incarnation,
    known.subject_patterns,
    known.registered_at,
    known.last_seen_at,
    (select count(*) from subject_lock as lock where lock.instance_name = known.instance_name),
    (
        select count(*)
        from ingest_queue as item
        where
            item.claimed_by_instance_name = known.instance_name
    ),
    state_of(known),
    known.paused_at
from instance as known
where is_worker(known)
order by known.instance_name
$$;
comment on function disarray.list_instances() is 'Every worker that ever registered, with what it holds now.';

create function disarray.is_worker(p_instance disarray.instance)
returns boolean
language sql
immutable
as $$
select not p_instance.metadata @> '{"is_command": true}'
$$;
comment on function disarray.is_worker(disarray.instance) is
    'Whether an instance serves subjects. A command registers to hold a source, a message or a job: it claims no subject, ends, and is not missed.';
