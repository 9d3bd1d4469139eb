-- Destinations: which subjects of each are behind, who loads them, and how far they have come.

create function disarray.destination_follower(p_destination text)
returns text
language sql
immutable
as $$
select 'destination:' || p_destination
$$;
comment on function disarray.destination_follower(text) is 'Under which name a destination follows commits.';

create function disarray.register_destination(p_destination text, p_dataset text, p_definition jsonb, p_subject_patterns text[])
returns boolean
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_former destination;
begin
    if (p_destination ~ '^[a-z][a-z0-9_]{0,62}$' and p_dataset <> '' and jsonb_typeof(p_definition) = 'object') is not true
        or octet_length(p_definition::text) > 1000000
    then
        raise exception 'a destination has a name of a-z, 0-9 and _, a dataset and a definition. Nothing was stored.'
        using errcode = 'DA001';
    end if;
    perform check_patterns(coalesce(p_subject_patterns, '{}'));
    insert into destination (destination, dataset, definition, subject_patterns, registered_at)
    values (p_destination, p_dataset, p_definition, p_subject_patterns, v_now)
    on conflict do nothing;
    if found then
        return true;
    end if;
    select known.*
    into v_former
    from destination as known
    where known.destination = p_destination
    for update;
    if (v_former.dataset, v_former.definition, v_former.subject_patterns) is not distinct from (p_dataset, p_definition, p_subject_patterns) then
        return false;
    end if;
    update destination as known
    set
        dataset = p_dataset,
        definition = p_definition,
        subject_patterns = p_subject_patterns,
        registered_at = v_now,
        is_sweep_due = known.is_sweep_due or v_former.dataset <> p_dataset,
        -- Given for what it was: of another target, or with other subjects, nobody has said what may go.
        are_deletes_allowed = false,
        failure_count = 0,
        last_error = null,
        last_error_at = null
    where known.destination = p_destination;
    -- What is no longer asked for is no longer kept for it either.
    delete from destination_position as position
    where
        position.destination = p_destination
        and (position.dataset <> p_dataset or not matches_pattern(position.subject_key, p_subject_patterns));
    delete from commit_follower as known
    where
        known.follower = destination_follower(p_destination)
        and not exists (
            select
            from destination_position as position
            where
                position.destination = p_destination
                and position.subject_key = known.subject_key
                and position.dataset = known.dataset
        );
    if v_former.definition is distinct from p_definition then
        update destination_position as position
        set
            is_whole_due = true,
            available_at = v_now,
            failure_count = 0,
            last_error = null,
            last_error_at = null,
            -- Whoever loads it now loads what is no longer asked for.
            instance_name = null,
            incarnation = null,
            fence = null,
            lease_expires_at = null
        where position.destination = p_destination;
    end if;
    if v_former.definition ->> 'target' is distinct from p_definition ->> 'target' then
        -- What another target has is somebody else's until it is loaded, whatever fence stands there.
        update destination_position as position
        set
            loads = 0,
            known_fences = array(
                select -max(abs(former.fence))
                from unnest(position.known_fences) as former (fence)
                having count(*) > 0
            )
        where position.destination = p_destination;
    end if;
    return true;
end
$$;
comment on function disarray.register_destination(text, text, jsonb, text[]) is
    'Say what a destination is: true where that is news. Under another definition everything is loaded anew; subjects that are no longer '
    'asked for are no longer followed; a permission to delete that was given before has ended.';

create function disarray.claim_destination(
    p_destination text,
    p_instance_name text,
    p_incarnation bigint,
    p_lease_seconds integer default 300,
    p_definition jsonb default null
)
returns table (
    subject_key text,
    dataset text,
    commit_seq bigint,
    newest_seq bigint,
    is_whole_due boolean,
    is_sweep_due boolean,
    fence bigint,
    known_fences bigint[],
    failure_count integer,
    is_first boolean,
    are_deletes_allowed boolean
)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock();
    v_follower constant text := destination_follower(p_destination);
    v_incarnation bigint;
    v_known destination;
    v_chosen text;
begin
    if (p_lease_seconds between 1 and 86400) is not true then
        raise exception 'a load has a lease of 1 to 86400 seconds. Nothing was claimed.'
        using errcode = 'DA001';
    end if;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    select known.*
    into v_known
    from destination as known
    where known.destination = p_destination;
    if not found then
        raise exception 'there is no destination %. Nothing was claimed.', quote_literal(left(p_destination, 200))
        using errcode = 'DA001';
    end if;
    -- A worker that was not started again since would load into what is no longer asked for, and call it done.
    if v_known.paused_at is not null or v_known.definition is distinct from coalesce(p_definition, v_known.definition) then
        return;
    end if;
    insert into destination_position (destination, subject_key, dataset, available_at)
    select
        p_destination,
        made.subject_key,
        made.dataset,
        v_now
    from subject_version as made
    where
        made.dataset = v_known.dataset
        and matches_pattern(made.subject_key, v_known.subject_patterns)
        and not exists (
            select
            from destination_position as position
            where
                position.destination = p_destination
                and position.subject_key = made.subject_key
        )
    order by made.subject_key
    on conflict do nothing;
    select position.subject_key
    into v_chosen
    from destination_position as position
    left join commit_follower as follower
        on
            follower.follower = v_follower
            and position.subject_key = follower.subject_key
            and position.dataset = follower.dataset
    where
        position.destination = p_destination
        and position.available_at <= v_now
        and (
            position.lease_expires_at is null
            or position.lease_expires_at <= v_now
            -- A holder that was started again since holds nothing.
            or not exists (
                select
                from instance as known
                where
                    known.instance_name = position.instance_name
                    and known.incarnation = position.incarnation
            )
        )
        and (
            position.is_whole_due
            or exists (
                select
                from subject_commit as noted
                where
                    noted.subject_key = position.subject_key
                    and noted.dataset = position.dataset
                    and noted.commit_seq > follower.commit_seq
            )
        )
    order by
        position.available_at,
        position.subject_key
    limit 1
    -- A row that is locked belongs to a load that is being committed: its holder lives.
    for update of position skip locked;
    if not found then
        return;
    end if;
    return query
    select turn.*
    from take_destination_turn(p_destination, v_chosen, p_instance_name, v_incarnation, p_lease_seconds, false) as turn;
end
$$;
comment on function disarray.claim_destination(text, text, bigint, integer, jsonb) is
    'Take the turn to load one subject that is behind, of those that wait longest: one row with its position, the newest commit and the '
    'fence; none where all is loaded, held, put off or paused.';

create function disarray.claim_destination_subject(
    p_destination text,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_lease_seconds integer,
    p_definition jsonb
)
returns table (
    subject_key text,
    dataset text,
    commit_seq bigint,
    newest_seq bigint,
    is_whole_due boolean,
    is_sweep_due boolean,
    fence bigint,
    known_fences bigint[],
    failure_count integer,
    is_first boolean,
    are_deletes_allowed boolean
)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock();
    v_incarnation bigint;
    v_known destination;
begin
    if (p_lease_seconds between 1 and 86400) is not true then
        raise exception 'a load has a lease of 1 to 86400 seconds. Nothing was claimed.'
        using errcode = 'DA001';
    end if;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    select known.*
    into v_known
    from destination as known
    where known.destination = p_destination;
    if not found or v_known.paused_at is not null or v_known.definition is distinct from p_definition then
        raise exception 'destination % is %. Nothing was claimed.',
            quote_literal(left(p_destination, 200)),
            case when v_known.destination is null then 'not known' when v_known.paused_at is not null then 'paused' else 'defined otherwise by now' end
        using
            errcode = 'DA001',
            hint = case when v_known.paused_at is not null then format('disarray sink resume %s goes on with it.', p_destination) end;
    end if;
    insert into destination_position (destination, subject_key, dataset, available_at)
    values (p_destination, p_subject_key, v_known.dataset, v_now)
    on conflict do nothing;
    perform
    from destination_position as position
    where
        position.destination = p_destination
        and position.subject_key = p_subject_key
        and (
            position.lease_expires_at is null
            or position.lease_expires_at <= v_now
            or not exists (
                select
                from instance as known
                where
                    known.instance_name = position.instance_name
                    and known.incarnation = position.incarnation
            )
        )
    -- A row that is locked belongs to a load that is being committed: its holder lives.
    for update of position skip locked;
    if not found then
        return;
    end if;
    return query
    select turn.*
    from take_destination_turn(p_destination, p_subject_key, p_instance_name, v_incarnation, p_lease_seconds, true) as turn;
end
$$;
comment on function disarray.claim_destination_subject(text, text, text, bigint, integer, jsonb) is
    'Take the turn to load all of one subject anew, whether it is behind or not: one row; none where another loads it now. Refused where the '
    'destination is paused or has another definition by now.';

create function disarray.take_destination_turn(
    p_destination text,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_lease_seconds integer,
    p_is_whole boolean
)
returns table (
    subject_key text,
    dataset text,
    commit_seq bigint,
    newest_seq bigint,
    is_whole_due boolean,
    is_sweep_due boolean,
    fence bigint,
    known_fences bigint[],
    failure_count integer,
    is_first boolean,
    are_deletes_allowed boolean
)
language plpgsql
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock();
    v_follower constant text := destination_follower(p_destination);
    v_known destination;
    v_known_fences bigint[];
    v_fence bigint;
begin
    select known.*
    into v_known
    from destination as known
    where known.destination = p_destination;
    select position.known_fences
    into v_known_fences
    from destination_position as position
    where
        position.destination = p_destination
        and position.subject_key = p_subject_key
    for update;
    perform follow_commits(v_follower, p_subject_key, v_known.dataset);
    -- Later than all before it, also than those that were handed out after the backup that this database was restored from.
    v_fence := greatest(
        extract(epoch from v_now) * 1000000,
        (select max(abs(former.fence)) from unnest(v_known_fences) as former (fence)) + 1
    );
    return query
    update destination_position as position
    set
        -- Whoever ends without having loaded it leaves that to the next.
        is_whole_due = position.is_whole_due or p_is_whole,
        instance_name = p_instance_name,
        incarnation = p_incarnation,
        fence = v_fence,
        -- The one that was noted, and the last of those that nobody knows the end of.
        known_fences = v_known_fences[1:1]
            || v_known_fences[greatest(cardinality(v_known_fences) - 48, 2):]
            || case when v_known_fences is not null then array[v_fence] end,
        lease_expires_at = v_now + make_interval(secs => p_lease_seconds)
    where
        position.destination = p_destination
        and position.subject_key = p_subject_key
    returning
        position.subject_key,
        position.dataset,
        (
            select follower.commit_seq
            from commit_follower as follower
            where
                follower.follower = v_follower
                and follower.subject_key = position.subject_key
                and follower.dataset = position.dataset
        ),
        (
            select coalesce(max(noted.commit_seq), 0)
            from subject_commit as noted
            where
                noted.subject_key = position.subject_key
                and noted.dataset = position.dataset
        ),
        position.is_whole_due,
        v_known.is_sweep_due,
        position.fence,
        v_known_fences,
        position.failure_count,
        position.loads = 0,
        v_known.are_deletes_allowed;
end
$$;
comment on function disarray.take_destination_turn(text, text, text, bigint, integer, boolean) is
    'The turn to load a subject whose position is locked: a fence later than all before it, and a lease.';

create function disarray.assert_destination_held(
    p_destination text,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint
)
returns void
language plpgsql
as $$
declare
    v_position disarray.destination_position;
begin
    select position.*
    into v_position
    from disarray.destination_position as position
    where
        position.destination = p_destination
        and position.subject_key = p_subject_key
    for update;
    if not found
        or v_position.instance_name is distinct from p_instance_name
        or v_position.incarnation is distinct from p_incarnation
        or v_position.fence is distinct from p_fence
        or v_position.lease_expires_at <= disarray.clock()
    then
        raise exception 'destination %, subject %, is no longer held by % (incarnation %, fence %). Nothing was changed.',
            quote_literal(p_destination), quote_literal(left(p_subject_key, 200)), quote_literal(p_instance_name), p_incarnation, p_fence
        using errcode = 'DA002', hint = 'Drop this load: another worker does it, or it was paused or asked for anew.';
    end if;
end
$$;
comment on function disarray.assert_destination_held(text, text, text, bigint, bigint) is
    'Lock a position and check instance, incarnation, lease and fence. Until the transaction ends nobody can take it over.';

create function disarray.renew_destination(
    p_destination text,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_lease_seconds integer
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_destination_held(p_destination, p_subject_key, p_instance_name, p_incarnation, p_fence);
    update destination_position as position
    set lease_expires_at = clock() + make_interval(secs => p_lease_seconds)
    where
        position.destination = p_destination
        and position.subject_key = p_subject_key;
end
$$;
comment on function disarray.renew_destination(text, text, text, bigint, bigint, integer) is 'Keep the turn to load a subject for longer.';

create function disarray.advance_destination(
    p_destination text,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_commit_seq bigint,
    p_rows_loaded bigint,
    p_rows_deleted bigint,
    p_seconds double precision,
    p_is_target_touched boolean default true
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
begin
    perform assert_destination_held(p_destination, p_subject_key, p_instance_name, p_incarnation, p_fence);
    perform advance_follower(destination_follower(p_destination), position.subject_key, position.dataset, p_commit_seq)
    from destination_position as position
    where
        position.destination = p_destination
        and position.subject_key = p_subject_key;
    update destination_position as position
    set
        is_whole_due = false,
        available_at = v_now,
        loads = position.loads + 1,
        rows_loaded = position.rows_loaded + p_rows_loaded,
        rows_deleted = position.rows_deleted + p_rows_deleted,
        last_loaded_at = v_now,
        last_seconds = p_seconds,
        known_fences = case
            when p_is_target_touched then array[p_fence]
            else array_remove(position.known_fences, p_fence)
        end,
        failure_count = 0,
        last_error = null,
        last_error_at = null,
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null
    where
        position.destination = p_destination
        and position.subject_key = p_subject_key;
    update destination as known
    set
        failure_count = 0,
        last_error = null,
        last_error_at = null
    where
        known.destination = p_destination
        and known.failure_count > 0;
    update destination as known
    set are_deletes_allowed = false
    where
        known.destination = p_destination
        and known.are_deletes_allowed
        and not known.is_sweep_due
        and not exists (
            select
            from destination_position as position
            where
                position.destination = p_destination
                and position.is_whole_due
        );
end
$$;
comment on function disarray.advance_destination(text, text, text, bigint, bigint, bigint, bigint, bigint, double precision, boolean) is
    'Note that a subject is loaded up to a commit, and give the turn back. Where the target is in this database, the last call of the '
    'transaction that loads it: refused, it takes the load with it. Where nothing had to be changed there, the target knows of no load.';

create function disarray.end_destination_turn(
    p_destination text,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_next_in interval,
    p_error text default null,
    p_target_fence bigint default null
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_destination_held(p_destination, p_subject_key, p_instance_name, p_incarnation, p_fence);
    update destination_position as position
    set
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null,
        -- The next load comes after the one that the target knows; the negative, because this database does not know that one.
        known_fences = case when p_target_fence is null then position.known_fences else array[-p_target_fence] end,
        is_whole_due = position.is_whole_due or p_target_fence is not null,
        available_at = clock() + greatest(p_next_in, interval '0'),
        failure_count = case when p_error is null then position.failure_count else position.failure_count + 1 end,
        last_error = case when p_error is null then position.last_error else left(p_error, 4000) end,
        last_error_at = case when p_error is null then position.last_error_at else clock() end
    where
        position.destination = p_destination
        and position.subject_key = p_subject_key;
end
$$;
comment on function disarray.end_destination_turn(text, text, text, bigint, bigint, interval, text, bigint) is
    'Give the turn to load a subject back: when it is due again, and what went wrong with it if anything did. A target that refused it '
    'for a later fence, while the turn was held, was loaded by another history: everything is loaded next.';

create function disarray.restart_destination(p_destination text)
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
update destination_position as position
set
    is_whole_due = true,
    available_at = clock(),
    -- Whoever loads it now loads too little.
    instance_name = null,
    incarnation = null,
    fence = null,
    lease_expires_at = null
where
    position.destination = p_destination
    and not position.is_whole_due
$$;
comment on function disarray.restart_destination(text) is 'The target has nothing any more: everything is loaded anew.';

create function disarray.list_unasked_subjects(p_destination text, p_subjects text[])
returns text[]
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select coalesce(array_agg(given.subject_key order by given.subject_key), '{}')
from destination as known
cross join unnest(p_subjects) as given (subject_key)
where
    known.destination = p_destination
    and not exists (
        select
        from subject_version as made
        where
            made.dataset = known.dataset
            and made.subject_key = given.subject_key
            and matches_pattern(made.subject_key, known.subject_patterns)
    )
$$;
comment on function disarray.list_unasked_subjects(text, text[]) is 'Of the subjects that a target has, those that the destination is not to have.';

create function disarray.find_lone_sweep(p_destination text, p_definition jsonb)
returns table (fence bigint, are_deletes_allowed boolean)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    (extract(epoch from clock()) * 1000000)::bigint,
    known.are_deletes_allowed
from destination as known
where
    known.destination = p_destination
    and known.is_sweep_due
    and known.paused_at is null
    and known.definition = p_definition
    -- Whoever loads one of those sweeps first.
    and not exists (
        select
        from destination_position as position
        where
            position.destination = p_destination
            and position.is_whole_due
    )
$$;
comment on function disarray.find_lone_sweep(text, jsonb) is
    'A sweep that is due where no subject is to be loaded, so that nobody has a turn: the fence for what is deleted, and whether all may '
    'go. None where the destination is paused, or has another definition by now. It has no lease: two that sweep at once delete the same.';

create function disarray.end_destination_sweep(p_destination text)
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
update destination as known
set
    is_sweep_due = false,
    -- Where nothing is to be loaded, that was all that it was for.
    are_deletes_allowed = known.are_deletes_allowed and exists (
        select
        from destination_position as position
        where
            position.destination = p_destination
            and position.is_whole_due
    )
where known.destination = p_destination
$$;
comment on function disarray.end_destination_sweep(text) is
    'The target has no subjects any more that are not asked for. A permission to delete ends, unless everything of a subject is due.';

create function disarray.note_destination_error(p_destination text, p_error text)
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
update destination as known
set
    failure_count = case when p_error is null then 0 else known.failure_count + 1 end,
    last_error = left(p_error, 4000),
    last_error_at = case when p_error is not null then clock() end
where
    known.destination = p_destination
    and (p_error <> '' or (p_error is null and known.last_error is not null))
$$;
comment on function disarray.note_destination_error(text, text) is
    'Keep why nothing can be loaded into a destination, for whoever looks at it; NULL where it was just seen to be well. The next load '
    'that works clears it as well.';

create function disarray.hold_destination_back(
    p_destination text,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_reason text
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    -- In the order of those who decide: the destination, then its subjects.
    perform
    from destination as known
    where known.destination = p_destination
    for update;
    perform assert_destination_held(p_destination, p_subject_key, p_instance_name, p_incarnation, p_fence);
    perform pause_before_deletes(p_destination, p_subject_key, p_instance_name, p_reason);
end
$$;
comment on function disarray.hold_destination_back(text, text, text, bigint, bigint, text) is
    'Pause a destination before a load deletes more of its target than it may: nothing is loaded into it until somebody decides.';

create function disarray.hold_lone_sweep_back(p_destination text, p_definition jsonb, p_instance_name text, p_reason text)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform
    from destination as known
    where known.destination = p_destination
    for update;
    perform
    from find_lone_sweep(p_destination, p_definition);
    if not found then
        raise exception 'destination % is no longer to be swept by itself. Nothing was changed.', quote_literal(left(p_destination, 200))
        using errcode = 'DA002', hint = 'Drop this sweep: it was done, paused, or is that of a load by now.';
    end if;
    perform pause_before_deletes(p_destination, null, p_instance_name, p_reason);
end
$$;
comment on function disarray.hold_lone_sweep_back(text, jsonb, text, text) is
    'Pause a destination before a sweep without a turn deletes more of its target than it may, as hold_destination_back does.';

create function disarray.pause_before_deletes(p_destination text, p_subject_key text, p_instance_name text, p_reason text)
returns void
language plpgsql
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
begin
    if (p_reason <> '') is not true then
        raise exception 'whoever holds a destination back says why. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    update destination as known
    set
        is_held_back = known.is_held_back or known.paused_at is null,
        paused_at = coalesce(known.paused_at, v_now),
        pause_reason = coalesce(known.pause_reason, left(p_reason, 4000))
    where known.destination = p_destination;
    update destination_position as position
    set
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null
    where position.destination = p_destination;
    insert into ingest_event (occurred_at, event_type, instance_name, metadata)
    values (
        v_now,
        'destination_paused',
        p_instance_name,
        jsonb_build_object('destination', p_destination, 'subject', p_subject_key, 'reason', left(p_reason, 4000), 'by', p_instance_name)
    );
end
$$;
comment on function disarray.pause_before_deletes(text, text, text, text) is
    'Pause a destination that is locked, and take all its turns away: a worker met more deletes than there may be.';

create function disarray.list_destinations()
returns table (
    destination text,
    dataset text,
    definition jsonb,
    subject_patterns text[],
    state text,
    subjects bigint,
    subjects_behind bigint,
    subjects_failing bigint,
    lag_commits bigint,
    lag_seconds double precision,
    loads bigint,
    rows_loaded bigint,
    rows_deleted bigint,
    last_loaded_at timestamptz,
    paused_at timestamptz,
    pause_reason text,
    failure_count integer,
    last_error text,
    last_error_at timestamptz,
    is_held_back boolean
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.destination,
    known.dataset,
    known.definition,
    known.subject_patterns,
    case
        when known.paused_at is not null then 'paused'
        when known.last_error is not null or counted.subjects_failing > 0 then 'failing'
        when counted.subjects_behind > 0 then 'behind'
        else 'current'
    end,
    counted.subjects,
    counted.subjects_behind,
    counted.subjects_failing,
    counted.lag_commits,
    counted.lag_seconds,
    counted.loads,
    counted.rows_loaded,
    counted.rows_deleted,
    counted.last_loaded_at,
    known.paused_at,
    known.pause_reason,
    known.failure_count,
    known.last_error,
    known.last_error_at,
    known.is_held_back
from destination as known
cross join lateral (
    select
        count(*) as subjects,
        count(*) filter (where position.lag_commits > 0) as subjects_behind,
        count(*) filter (where position.last_error is not null) as subjects_failing,
        coalesce(sum(position.lag_commits), 0)::bigint as lag_commits,
        coalesce(max(position.lag_seconds), 0)::double precision as lag_seconds,
        coalesce(sum(position.loads), 0)::bigint as loads,
        coalesce(sum(position.rows_loaded), 0)::bigint as rows_loaded,
        coalesce(sum(position.rows_deleted), 0)::bigint as rows_deleted,
        max(position.last_loaded_at) as last_loaded_at
    from destination_lag(known.destination) as position
) as counted
order by known.destination
$$;
comment on function disarray.list_destinations() is
    'Every destination that was ever registered: state is paused, failing, behind or current. lag_commits are those that its subjects '
    'have not loaded, lag_seconds the age of the oldest of them.';

create function disarray.list_destination_subjects(p_destination text, p_limit integer default 100, p_after text[] default null)
returns table (
    subject_key text,
    dataset text,
    commit_seq bigint,
    newest_seq bigint,
    lag_commits bigint,
    lag_seconds double precision,
    is_whole_due boolean,
    loads bigint,
    rows_loaded bigint,
    rows_deleted bigint,
    last_loaded_at timestamptz,
    last_seconds double precision,
    next_at timestamptz,
    held_by text,
    failure_count integer,
    last_error text,
    last_error_at timestamptz
)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
begin
    if p_limit < 1 or cardinality(p_after) <> 1 then
        raise exception 'a page has at least one row and goes on after a subject. Nothing was read.'
        using errcode = 'DA001';
    end if;
    return query
    select position.*
    from destination_lag(p_destination) as position
    where p_after is null or position.subject_key > p_after[1]
    order by position.subject_key
    limit p_limit;
end
$$;
comment on function disarray.list_destination_subjects(text, integer, text[]) is 'How far each subject of a destination has come, by name.';

create function disarray.destination_lag(p_destination text)
returns table (
    subject_key text,
    dataset text,
    commit_seq bigint,
    newest_seq bigint,
    lag_commits bigint,
    lag_seconds double precision,
    is_whole_due boolean,
    loads bigint,
    rows_loaded bigint,
    rows_deleted bigint,
    last_loaded_at timestamptz,
    last_seconds double precision,
    next_at timestamptz,
    held_by text,
    failure_count integer,
    last_error text,
    last_error_at timestamptz
)
language sql
stable
as $$
select
    made.subject_key,
    made.dataset,
    coalesce(follower.commit_seq, 0),
    coalesce(newest.commit_seq, 0),
    -- All that a subject ever was is one thing to do.
    greatest(coalesce(newest.commit_seq, 0) - coalesce(follower.commit_seq, 0), 0) + (coalesce(position.is_whole_due, true))::integer,
    case
        when coalesce(position.is_whole_due, true) or newest.commit_seq > follower.commit_seq then
            greatest(extract(epoch from disarray.clock() - coalesce(undone.committed_at, newest.committed_at)), 0)::double precision
        else 0
    end,
    coalesce(position.is_whole_due, true),
    coalesce(position.loads, 0),
    coalesce(position.rows_loaded, 0),
    coalesce(position.rows_deleted, 0),
    position.last_loaded_at,
    position.last_seconds,
    position.available_at,
    case when position.lease_expires_at > disarray.clock() then position.instance_name end,
    coalesce(position.failure_count, 0),
    position.last_error,
    position.last_error_at
from disarray.destination as known
inner join disarray.subject_version as made
    on
        known.dataset = made.dataset
        and disarray.matches_pattern(made.subject_key, known.subject_patterns)
left join disarray.destination_position as position
    on
        known.destination = position.destination
        and made.subject_key = position.subject_key
left join disarray.commit_follower as follower
    on
        follower.follower = disarray.destination_follower(p_destination)
        and made.subject_key = follower.subject_key
        and made.dataset = follower.dataset
left join lateral (
    select
        noted.commit_seq,
        noted.committed_at
    from disarray.subject_commit as noted
    where
        noted.subject_key = made.subject_key
        and noted.dataset = made.dataset
    order by noted.commit_seq desc
    limit 1
) as newest on true
left join lateral (
    select noted.committed_at
    from disarray.subject_commit as noted
    where
        noted.subject_key = made.subject_key
        and noted.dataset = made.dataset
        and noted.commit_seq > follower.commit_seq
    order by noted.commit_seq
    limit 1
) as undone on true
where known.destination = p_destination
$$;
comment on function disarray.destination_lag(text) is
    'How far each subject of a destination has come, also those that nobody has begun with.';

create function disarray.list_destination_stretch(p_destination text, p_after text, p_to text, p_limit integer)
returns table (subject_key text, commit_seq bigint, newest_seq bigint, is_whole_due boolean)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    position.subject_key,
    position.commit_seq,
    position.newest_seq,
    position.is_whole_due
from destination_lag(p_destination) as position
where
    (p_after is null or position.subject_key > p_after)
    and (p_to is null or position.subject_key <= p_to)
order by position.subject_key
limit p_limit
$$;
comment on function disarray.list_destination_stretch(text, text, text, integer) is
    'The subjects of a destination behind one, up to and with another, by name: how far each has come.';

create function disarray.measure_destination(p_destination text)
returns table (subjects bigint, last_subject text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    count(*),
    max(position.subject_key)
from destination_lag(p_destination) as position
$$;
comment on function disarray.measure_destination(text) is 'How many subjects a destination has, and the last by name.';

create function disarray.decide_destination(
    p_destination text,
    p_decision text,
    p_reason text,
    p_by text,
    p_subject_key text default null,
    p_allows_deletes boolean default false
)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
set lock_timeout = '10s'
as $$
declare
    v_now constant timestamptz := clock();
    v_known destination;
    v_goes_on boolean;
    v_subjects bigint;
begin
    perform check_decision(p_reason, p_by);
    if p_allows_deletes and p_decision is distinct from 'republished' then
        raise exception 'whoever lets a target lose rows publishes it again, so that all that is due then is loaded. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    if p_allows_deletes and p_subject_key is not null then
        raise exception 'deletes are allowed for a destination, not for its subject % alone: others would lose rows as well. Nothing was changed.',
            quote_literal(left(p_subject_key, 200))
        using
            errcode = 'DA001',
            hint = format('disarray sink republish %s --allow-deletes allows them for all subjects; --dry-run tells how much goes.', p_destination);
    end if;
    if coalesce(p_decision not in ('paused', 'resumed', 'republished'), true) then
        raise exception 'a destination is paused, resumed or republished, not %. Nothing was changed.',
            coalesce(quote_literal(p_decision), 'NULL')
        using errcode = 'DA001';
    end if;
    select known.*
    into v_known
    from destination as known
    where known.destination = p_destination
    for update;
    if not found then
        raise exception 'there is no destination %. Nothing was changed.', quote_literal(left(p_destination, 200))
        using errcode = 'DA001', hint = 'Workers make known what disarray.toml describes when they start.';
    end if;
    v_goes_on := p_decision = 'resumed' or (v_known.is_held_back and p_allows_deletes);
    update destination as known
    set
        paused_at = case when p_decision = 'paused' then coalesce(known.paused_at, v_now) when not v_goes_on then known.paused_at end,
        pause_reason = case when p_decision = 'paused' then p_reason when not v_goes_on then known.pause_reason end,
        is_held_back = known.is_held_back and p_decision <> 'paused' and not v_goes_on,
        are_deletes_allowed = known.are_deletes_allowed or p_allows_deletes,
        is_sweep_due = known.is_sweep_due or (p_decision = 'republished' and p_subject_key is null)
    where known.destination = p_destination;
    update destination_position as position
    set
        is_whole_due = position.is_whole_due or p_decision = 'republished',
        available_at = case p_decision when 'paused' then position.available_at else v_now end,
        -- Whoever loads it now is fenced.
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null
    where
        position.destination = p_destination
        and (p_subject_key is null or position.subject_key = p_subject_key);
    get diagnostics v_subjects = row_count;
    if p_subject_key is not null and v_subjects = 0 then
        raise exception 'destination % has nothing of subject %. Nothing was changed.',
            quote_literal(p_destination), quote_literal(left(p_subject_key, 200))
        using errcode = 'DA001';
    end if;
    insert into ingest_event (occurred_at, event_type, instance_name, metadata)
    values (
        v_now,
        ('destination_' || p_decision)::ingest_event_event_type,
        null,
        decision_of(p_reason, p_by)
            || jsonb_build_object('destination', p_destination, 'subject', p_subject_key)
            || case when p_allows_deletes then '{"allows_deletes": true}'::jsonb else '{}'::jsonb end
    );
    return v_subjects;
end
$$;
comment on function disarray.decide_destination(text, text, text, text, text, boolean) is
    'Pause a destination, resume it, or let it load everything anew, of one subject or of all; whoever loads it now loses its turn. '
    'How many subjects that concerns. With deletes allowed, a target that is published again may lose whatever is not known here, and a '
    'destination that was held back for that goes on; that is allowed for all of its subjects, or not at all.';

create function disarray.forget_destination(p_destination text, p_reason text, p_by text)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
set lock_timeout = '10s'
as $$
begin
    perform check_decision(p_reason, p_by);
    delete from destination as known
    where known.destination = p_destination;
    if not found then
        raise exception 'there is no destination %. Nothing was changed.', quote_literal(left(p_destination, 200))
        using errcode = 'DA001';
    end if;
    return unfollow_commits(destination_follower(p_destination));
end
$$;
comment on function disarray.forget_destination(text, text, text) is
    'Forget a destination that is no longer described, so that no commits are kept for it; how many subjects it followed. What it loaded stays.';
