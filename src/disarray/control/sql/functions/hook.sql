-- Hooks as they are configured: who is to be told of what.

create function disarray.register_hooks(p_hooks jsonb)
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_living integer;
begin
    perform enter_gate('hooks');
    insert into hook as known (
        hook_name, kind, causes, subject_patterns, dataset_patterns, larger_than, no_data_since, stale_longer_than,
        definition, definition_digest, registered_at, watched_since
    )
    select
        given.hook_name,
        given.kind,
        given.causes,
        given.subject_patterns,
        given.dataset_patterns,
        given.larger_than,
        make_interval(secs => given.no_data_since_seconds),
        make_interval(secs => given.stale_longer_than_seconds),
        given.definition,
        given.definition_digest,
        v_now,
        v_now
    from jsonb_to_recordset(p_hooks) as given (
        hook_name text, kind text, causes disarray.hook_cause[], subject_patterns text[], dataset_patterns text[], larger_than jsonb,
        no_data_since_seconds float8, stale_longer_than_seconds float8, definition jsonb, definition_digest text
    )
    order by given.hook_name
    on conflict (hook_name) do update
    set
        kind = excluded.kind,
        causes = excluded.causes,
        subject_patterns = excluded.subject_patterns,
        dataset_patterns = excluded.dataset_patterns,
        larger_than = excluded.larger_than,
        no_data_since = excluded.no_data_since,
        stale_longer_than = excluded.stale_longer_than,
        definition = excluded.definition,
        definition_digest = excluded.definition_digest,
        registered_at = case when known.ended_at is null then known.registered_at else excluded.registered_at end,
        watched_since = case
            when known.ended_at is null and known.no_data_since is not distinct from excluded.no_data_since then known.watched_since
            else excluded.watched_since
        end,
        ended_at = null;
    update hook as gone
    set ended_at = v_now
    where
        gone.ended_at is null
        and not exists (
            select
            from jsonb_to_recordset(p_hooks) as given (hook_name text)
            where given.hook_name = gone.hook_name
        );
    update side_effect as effect
    set
        state = 'dead',
        reason = case effect.state
            when 'pending' then 'the hook is no longer configured'
            else 'the hook is no longer configured; it was being sent, and may have arrived'
        end,
        settled_at = v_now,
        claimed_by_instance_name = null,
        claimed_incarnation = null,
        fence = null,
        lease_expires_at = null
    from hook as gone
    where
        effect.hook_name = gone.hook_name
        and gone.ended_at is not null
        and effect.state in ('pending', 'sending');
    select count(*)
    into v_living
    from hook as living
    where living.ended_at is null;
    return v_living;
end
$$;
comment on function disarray.register_hooks(jsonb) is
    'Make the hooks of a configuration known: these, and no others. What waits for one that is no longer there is given up, and can be '
    'sent when it is there again. How many there are.';

create function disarray.has_hook(p_cause disarray.hook_cause)
returns boolean
language sql
stable
as $$
select exists (
    select
    from disarray.hook as living
    where
        living.ended_at is null
        and p_cause = any(living.causes)
)
$$;
comment on function disarray.has_hook(disarray.hook_cause) is 'Whether anybody is to be told of such a thing: a commit asks this first.';

create function disarray.hooks_of(p_cause disarray.hook_cause, p_subject_key text, p_dataset text)
returns setof disarray.hook
language sql
stable
as $$
select living.*
from disarray.hook as living
where
    living.ended_at is null
    and p_cause = any(living.causes)
    -- What is about no one subject or dataset is for those who ask for all.
    and case
        when p_subject_key is null then '*' = any(living.subject_patterns)
        else disarray.matches_pattern(p_subject_key, living.subject_patterns)
    end
    and case
        when p_dataset is null then '*' = any(living.dataset_patterns)
        else disarray.matches_pattern(p_dataset, living.dataset_patterns)
    end
order by living.hook_name
$$;
comment on function disarray.hooks_of(disarray.hook_cause, text, text) is 'The hooks that are to be told of a cause in a subject and dataset.';

create function disarray.list_hooks(p_hook_name text default null)
returns table (
    hook_name text,
    kind text,
    causes text[],
    subject_patterns text[],
    dataset_patterns text[],
    larger_than jsonb,
    no_data_since interval,
    stale_longer_than interval,
    definition jsonb,
    registered_at timestamptz,
    ended_at timestamptz,
    pending bigint,
    sending bigint,
    done bigint,
    dead bigint,
    last_done_at timestamptz,
    last_reason text
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.hook_name,
    known.kind,
    known.causes::text[],
    known.subject_patterns,
    known.dataset_patterns,
    known.larger_than,
    known.no_data_since,
    known.stale_longer_than,
    known.definition,
    known.registered_at,
    known.ended_at,
    coalesce(counted.pending, 0),
    coalesce(counted.sending, 0),
    coalesce(counted.done, 0),
    coalesce(counted.dead, 0),
    counted.last_done_at,
    (
        select failed.reason
        from side_effect as failed
        where
            failed.hook_name = known.hook_name
            and failed.state in ('pending', 'dead')
            and failed.reason is not null
        order by failed.effect_id desc
        limit 1
    )
from hook as known
left join (
    select
        effect.hook_name,
        count(*) filter (where effect.state = 'pending') as pending,
        count(*) filter (where effect.state = 'sending') as sending,
        count(*) filter (where effect.state = 'done') as done,
        count(*) filter (where effect.state = 'dead') as dead,
        max(effect.settled_at) filter (where effect.state = 'done') as last_done_at
    from side_effect as effect
    group by effect.hook_name
) as counted on known.hook_name = counted.hook_name
where p_hook_name is null or known.hook_name = p_hook_name
order by known.hook_name
$$;
comment on function disarray.list_hooks(text) is 'The hooks that there are or were, and what became of what they were to be told; last_reason is the newest failure that is not mended.';
