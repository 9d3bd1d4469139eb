create function disarray.mark_dirty(
    p_subject_key text,
    p_instance_name text,
    p_range_start timestamptz,
    p_range_end timestamptz,
    p_reason text,
    p_incarnation bigint default null
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
    insert into dirty_range (subject_key, range_start, range_end, reason, created_at)
    values (p_subject_key, p_range_start, p_range_end, p_reason, clock());
end
$$;
comment on function disarray.mark_dirty(text, text, timestamptz, timestamptz, text, bigint) is
    'Note that derived numbers of a span are stale; it stays open until reconcile_subject resolves it.';

create function disarray.reconcile_subject(p_subject_key text, p_instance_name text, p_incarnation bigint default null)
returns timestamptz
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_frontier timestamptz;
begin
    perform assert_subject_held(p_subject_key, p_instance_name, p_incarnation);
    select min(open.range_start)
    into v_frontier
    from dirty_range as open
    where
        open.subject_key = p_subject_key
        and open.resolved_at is null;
    if v_frontier is null then
        return null;
    end if;
    update dirty_range as open
    set resolved_at = v_now
    where
        open.subject_key = p_subject_key
        and open.resolved_at is null;
    insert into ingest_event (occurred_at, event_type, subject_key, instance_name, metadata)
    values (v_now, 'reconciled', p_subject_key, p_instance_name, jsonb_build_object('frontier', v_frontier));
    return v_frontier;
end
$$;
comment on function disarray.reconcile_subject(text, text, bigint) is
    'Resolve every open dirty range of a held subject; the frontier that was resolved, or NULL where nothing was stale.';
