-- Verification of backfills: one worker at a time compares the whole, and stores the verdict.

create function disarray.claim_backfill_verification(p_job_id bigint, p_instance_name text, p_incarnation bigint, p_lease_seconds integer, p_is_asked_for boolean)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_incarnation bigint;
    v_job backfill_job;
    v_fence bigint;
begin
    if (p_lease_seconds between 1 and 86400) is not true then
        raise exception 'a verification is claimed with a lease of 1 to 86400 seconds. Nothing was claimed.'
        using errcode = 'DA001';
    end if;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    select job.*
    into v_job
    from backfill_job as job
    where job.job_id = p_job_id
    for update skip locked;
    if not found then
        return null;
    end if;
    if not (
        v_job.state in ('running', 'verifying')
        or (coalesce(p_is_asked_for, false) and v_job.state = 'done')
    )
        or v_job.scanned_at is null
        or exists (
            select
            from backfill_chunk as open
            where
                open.job_id = p_job_id
                and open.state in ('waiting', 'claimed')
        )
        or is_held(v_job.instance_name, v_job.incarnation, v_job.lease_expires_at, v_now)
    then
        return null;
    end if;
    update backfill_job as job
    set
        state = case when job.state = 'running' then 'verifying' else job.state end,
        instance_name = p_instance_name,
        incarnation = v_incarnation,
        fence = nextval('disarray.batch_seq'),
        lease_expires_at = v_now + make_interval(secs => p_lease_seconds)
    where job.job_id = p_job_id
    returning job.fence into v_fence;
    return v_fence;
end
$$;
comment on function disarray.claim_backfill_verification(bigint, text, bigint, integer, boolean) is
    'Take the turn to verify a job whose chunks have all ended: the fence. NULL where another verifies it or it is not due; one that is done is '
    'verified again where that is asked for.';

create function disarray.assert_backfill_verification_held(p_job_id bigint, p_instance_name text, p_incarnation bigint, p_fence bigint)
returns void
language plpgsql
as $$
declare
    v_job disarray.backfill_job;
begin
    select job.*
    into v_job
    from disarray.backfill_job as job
    where job.job_id = p_job_id
    for update;
    if not found
        or v_job.instance_name is distinct from p_instance_name
        or v_job.incarnation is distinct from p_incarnation
        or v_job.fence is distinct from p_fence
        or v_job.lease_expires_at <= disarray.clock()
    then
        raise exception 'the verification of backfill job % is no longer held by %. Nothing was changed.',
            coalesce(p_job_id::text, 'NULL'), coalesce(quote_literal(p_instance_name), 'NULL')
        using errcode = 'DA002', hint = 'Drop it: another worker verifies the job, or it was decided otherwise.';
    end if;
end
$$;
comment on function disarray.assert_backfill_verification_held(bigint, text, bigint, bigint) is 'Lock the row of a job and check who verifies it.';

create function disarray.renew_backfill_verification(p_job_id bigint, p_instance_name text, p_incarnation bigint, p_fence bigint, p_lease_seconds integer)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_backfill_verification_held(p_job_id, p_instance_name, p_incarnation, p_fence);
    update backfill_job as job
    set lease_expires_at = clock() + make_interval(secs => p_lease_seconds)
    where job.job_id = p_job_id;
end
$$;
comment on function disarray.renew_backfill_verification(bigint, text, bigint, bigint, integer) is 'Keep the turn to verify for longer.';

create function disarray.record_backfill_verdict(
    p_job_id bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_verdict text,
    p_details jsonb
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
begin
    -- Before the job, as every decision does.
    perform
    from backfill_pace as pace
    where pace.job_id = p_job_id
    for update;
    perform assert_backfill_verification_held(p_job_id, p_instance_name, p_incarnation, p_fence);
    if coalesce(octet_length(p_details::text) > 100000, true) then
        raise exception 'a verdict has details of at most 100000 bytes. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    update backfill_job as job
    set
        state = 'done',
        state_reason = null,
        ended_at = coalesce(job.ended_at, v_now),
        verdict = p_verdict,
        verdict_details = p_details,
        verified_at = v_now,
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null
    where job.job_id = p_job_id;
    update backfill_pace as pace
    set
        held_by = null,
        held_reason = null,
        held_at = null
    where pace.job_id = p_job_id;
    perform note_backfill_event('backfill_ended', p_job_id, jsonb_build_object('verdict', p_verdict));
end
$$;
comment on function disarray.record_backfill_verdict(bigint, text, bigint, bigint, text, jsonb) is
    'Keep what verification found, and end the job: verified, changed (by others, since), failed, or incomplete (chunks are dead).';
