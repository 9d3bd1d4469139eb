create function disarray.mark_dirty(
    p_subject_key text,
    p_instance_name text,
    p_range_start timestamptz,
    p_range_end timestamptz,
    p_reason text,
    p_incarnation bigint default null,
    p_dataset text default null
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_subject_held(p_subject_key, p_instance_name, p_incarnation);
    if (p_range_start < p_range_end) is not true then
        raise exception 'the range from % to % is empty. Nothing was stored.', p_range_start, p_range_end
        using errcode = 'DA001';
    end if;
    insert into dirty_range (subject_key, dataset, range_start, range_end, reason, created_at)
    values (p_subject_key, p_dataset, p_range_start, p_range_end, p_reason, clock());
end
$$;
comment on function disarray.mark_dirty(text, text, timestamptz, timestamptz, text, bigint, text) is
    'Note that derived numbers of a span are stale; it stays open until reconcile_subject resolves it.';

create function disarray.reconcile_subject(
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint default null,
    p_max_rows bigint default null
)
returns timestamptz
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_subject_held(p_subject_key, p_instance_name, p_incarnation);
    return (
        select resolved.frontier
        from resolve_ranges(
            p_subject_key, p_instance_name, p_max_rows,
            -- The run of this very transaction, if it is the end of one.
            (
                select newest.run_id
                from (
                    select
                        known.run_id,
                        known.xmin as made_by
                    from run as known
                    where known.subject_key = p_subject_key
                    order by known.committed_at desc
                    limit 1
                ) as newest
                where newest.made_by = pg_current_xact_id()::xid
            )
        ) as resolved
    );
end
$$;
comment on function disarray.reconcile_subject(text, text, bigint, bigint) is
    'Shift what is stale of a held subject and resolve its dirty ranges; the frontier, or NULL where nothing was stale '
    'or more than p_max_rows bases would have to be looked at: then the ranges stay open for a reconcile item.';

create function disarray.resolve_ranges(
    p_subject_key text,
    p_instance_name text,
    p_max_rows bigint,
    p_run_id uuid,
    out frontier timestamptz,
    out bases_shifted bigint,
    out restatements bigint
)
language plpgsql
-- Planning these statements anew takes longer than to run them, and a late file is seldom: a session would plan every time.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    v_now constant timestamptz := disarray.clock();
    v_stale record;
    v_shifted record;
    v_restates jsonb;
begin
    bases_shifted := 0;
    restatements := 0;
    select min(open.range_start)
    into frontier
    from disarray.dirty_range as open
    where
        open.subject_key = p_subject_key
        and open.resolved_at is null;
    if frontier is null then
        return;
    end if;
    if p_max_rows < (
        select sum(disarray.count_shifted(stale.dataset, p_subject_key, stale.frontier_us, stale.changed))
        from disarray.stale_datasets(p_subject_key) as stale
    ) then
        frontier := null;
        return;
    end if;

    -- However many ranges overlap, one pass from the earliest of them resolves them all.
    for v_stale in
        select stale.*
        from disarray.stale_datasets(p_subject_key) as stale
        order by stale.dataset
    loop
        -- At most one: a commit resolves what is open before it changes anything.
        select open.restates
        into v_restates
        from disarray.dirty_range as open
        where
            open.subject_key = p_subject_key
            and open.dataset = v_stale.dataset
            and open.resolved_at is null
            and open.restates is not null;
        select shifted.*
        into v_shifted
        from telemetry.shift_bases(v_stale.dataset, p_subject_key, v_stale.frontier_us, v_restates, v_stale.changed) as shifted;
        bases_shifted := bases_shifted + v_shifted.bases_shifted;
        if v_shifted.bases_shifted > 0 then
            perform disarray.note_shift(p_run_id, p_subject_key, v_stale.dataset, v_stale.frontier_us);
        end if;
        if v_restates is not null then
            restatements := restatements
                + disarray.note_restatements(v_stale.dataset, p_subject_key, v_restates, v_shifted.moved, v_now);
        end if;
    end loop;
    update disarray.dirty_range as open
    set
        resolved_at = v_now,
        restates = null,
        changed_segments = null
    where
        open.subject_key = p_subject_key
        and open.resolved_at is null;
    insert into disarray.ingest_event (occurred_at, event_type, subject_key, instance_name, metadata)
    values (
        v_now, 'reconciled', p_subject_key, p_instance_name,
        jsonb_build_object('frontier', frontier, 'bases_shifted', bases_shifted)
    );
end
$$;
comment on function disarray.resolve_ranges(text, text, bigint, uuid) is
    'The work behind reconcile_subject, for callers that hold the lock row already; also how many bases moved, and how many series were restated.';

create function disarray.stale_datasets(p_subject_key text)
returns table (dataset text, frontier_us bigint, changed bigint[])
language sql
stable
as $$
select
    held.dataset,
    min(coalesce(around.segment_us, disarray.microseconds_of(open.range_start))) as frontier_us,
    -- One of which nobody knows what it changed concerns every block behind it.
    case
        when bool_and(open.changed_segments is not null)
            then array(
                select changed.segment_us
                from disarray.dirty_range as noted
                cross join lateral unnest(noted.changed_segments) as changed (segment_us)
                where
                    noted.subject_key = p_subject_key
                    and noted.resolved_at is null
                    and noted.dataset = held.dataset
            )
    end as changed
from disarray.dirty_range as open
inner join disarray.subject_version as held
    on
        open.subject_key = held.subject_key
        and held.dataset = coalesce(open.dataset, held.dataset)
left join disarray.segment as around
    on
        around.dataset = held.dataset
        and around.subject_key = p_subject_key
        and around.segment_us <= disarray.microseconds_of(open.range_start)
        and around.segment_end_us > disarray.microseconds_of(open.range_start)
where
    open.subject_key = p_subject_key
    and open.resolved_at is null
group by held.dataset
$$;
comment on function disarray.stale_datasets(text) is
    'What open dirty ranges say of each dataset of a subject: from which segment on bases are stale, and which segments changed; NULL where that is not known.';

create function disarray.count_shifted(p_dataset text, p_subject_key text, p_frontier_us bigint, p_changed bigint[])
returns bigint
language sql
stable
as $$
with touched as (
    select
        telemetry.block_of(changed.segment_us, made.block_length_us) as block_us,
        telemetry.block_of(changed.segment_us, made.block_length_us) + made.block_length_us as end_us,
        min(changed.segment_us) as frontier_us
    from disarray.subject_version as made
    cross join lateral unnest(p_changed) as changed (segment_us)
    where
        made.dataset = p_dataset
        and made.subject_key = p_subject_key
    group by
        1,
        2
    union all
    select
        telemetry.block_of(p_frontier_us, made.block_length_us),
        9223372036854775807,
        p_frontier_us
    from disarray.subject_version as made
    where
        p_changed is null
        and made.dataset = p_dataset
        and made.subject_key = p_subject_key
)

select
    (
        select coalesce(sum(piece.rows), 0)::bigint
        from touched
        cross join lateral (
            select count(*) as rows
            from disarray.segment_summary as summary
            where
                summary.dataset = p_dataset
                and summary.subject_key = p_subject_key
                and summary.segment_us >= touched.frontier_us
                and summary.segment_us < touched.end_us
        ) as piece
    )
    + (
        select count(*)
        from disarray.metric_block as block
        where
            block.dataset = p_dataset
            and block.subject_key = p_subject_key
            and block.block_us >= (select min(touched.block_us) from touched)
    )
$$;
comment on function disarray.count_shifted(text, text, bigint, bigint[]) is
    'How many rows a shift may write: the pieces of the touched blocks from the frontier on, and the blocks from the first of them on.';

create function disarray.queue_reconcile(p_subject_key text, p_now timestamptz)
returns void
language plpgsql
as $$
begin
    insert into disarray.ingest_queue (kind, lane, subject_key, reason, enqueued_at, available_at)
    select
        'reconcile'::disarray.ingest_queue_kind,
        disarray.lane_of('reconcile'),
        p_subject_key,
        'reconcile'::disarray.ingest_queue_reason,
        p_now,
        p_now
    where exists (
        select
        from disarray.dirty_range as open
        where
            open.subject_key = p_subject_key
            and open.resolved_at is null
    )
    on conflict do nothing;
    if found then
        perform disarray.call_turns(array[p_subject_key], disarray.lane_of('reconcile'), p_now);
    end if;
end
$$;
comment on function disarray.queue_reconcile(text, timestamptz) is
    'Queue an item that resolves what is stale of a held subject, if anything is. Lost, it is queued again by the next claim of anybody.';

create function disarray.request_reconcile(p_subject_keys text[], p_reason text, p_by text)
returns table (subject_key text, stale_from timestamptz, queue_id bigint, held_by text)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock();
    v_stale record;
begin
    perform check_decision(p_reason, p_by);
    for v_stale in
        select
            open.subject_key,
            min(open.range_start) as stale_from
        from dirty_range as open
        where
            open.resolved_at is null
            and (p_subject_keys is null or open.subject_key = any(p_subject_keys))
        group by open.subject_key
        order by open.subject_key
    loop
        -- The gate of every claim: while it is ours nobody takes the subject, and no other reconcile item of it comes or goes.
        perform
        from subject as gate
        where gate.subject_key = v_stale.subject_key
        for update;
        subject_key := v_stale.subject_key;
        stale_from := v_stale.stale_from;
        queue_id := null;
        held_by := (
            select lock.instance_name
            from subject_lock as lock
            where lock.subject_key = v_stale.subject_key
        );
        -- Whoever holds it goes on; what is still open when it leaves is queued by the next claim of anybody.
        if held_by is null then
            insert into ingest_queue as waiting (kind, lane, subject_key, reason, requested_by_instance_name, enqueued_at, available_at)
            values ('reconcile', lane_of('reconcile'), v_stale.subject_key, 'reconcile', p_by, v_now, v_now)
            on conflict (subject_key, kind, dataset, lane, status) where source_uri is null do update
            set available_at = least(waiting.available_at, excluded.available_at)
            returning waiting.queue_id into queue_id;
            perform call_turns(array[v_stale.subject_key], lane_of('reconcile'), v_now);
        end if;
        insert into ingest_event (occurred_at, event_type, subject_key, metadata)
        values (
            v_now, 'reconcile_requested', v_stale.subject_key,
            decision_of(p_reason, p_by) || jsonb_build_object('queue_id', queue_id, 'held_by', held_by)
        );
        return next;
    end loop;
end
$$;
comment on function disarray.request_reconcile(text[], text, text) is
    'Queue a reconcile item for each of the subjects, or of all, that has open dirty ranges; those that have none are left out. '
    'A subject that somebody holds needs no item: its holder, or the next claim after it, sees to it.';
