-- Figures about backfills for a monitoring system, which asks every few seconds: chunks of jobs that have ended are not looked at.

create function disarray.count_backfills()
returns table (state text, jobs bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    job.state::text,
    count(*)
from backfill_job as job
group by job.state
$$;
comment on function disarray.count_backfills() is 'How many jobs are in which state, those that have ended and are kept among them.';

create function disarray.count_backfill_verdicts(p_since timestamptz)
returns table (verdict text, jobs bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    job.verdict,
    count(*)
from backfill_job as job
where
    job.state = 'done'
    and job.verified_at >= p_since
    and not exists (
        select
        from backfill_job as newer
        where
            newer.name = job.name
            and newer.job_id > job.job_id
    )
group by job.verdict
$$;
comment on function disarray.count_backfill_verdicts(timestamptz) is
    'How many jobs were given which verdict since then; one of which a newer of its name was started does not count.';

create function disarray.list_backfill_figures()
returns table (
    job_id bigint,
    name text,
    state text,
    rows_estimated bigint,
    rows_done bigint,
    chunks_dead bigint,
    held_by text,
    idle_seconds double precision
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    job.job_id,
    job.name,
    job.state::text,
    job.rows_estimated,
    counted.rows_done,
    counted.dead,
    pace.held_by,
    case
        when job.state in ('running', 'verifying') then greatest(
            extract(
                epoch from clock() - greatest(
                    job.started_at,
                    counted.ended_at,
                    -- Whoever verifies keeps the lease.
                    case when job.state = 'verifying' then job.lease_expires_at end
                )
            ),
            0
        )::double precision
    end
from backfill_job as job
inner join backfill_pace as pace on job.job_id = pace.job_id
cross join lateral (
    select
        coalesce(sum(chunk.rows_cut) filter (where chunk.state = 'done'), 0)::bigint as rows_done,
        count(*) filter (where chunk.state = 'dead') as dead,
        max(chunk.ended_at) filter (where chunk.state = 'done') as ended_at
    from backfill_chunk as chunk
    where chunk.job_id = job.job_id
) as counted
-- As the index a_name_is_active_once says it.
where job.state in ('running', 'paused', 'stopped', 'verifying')
order by job.job_id
$$;
comment on function disarray.list_backfill_figures() is
    'The jobs that are under way, paused or stopped: their rows, dead chunks and what holds them back, and since when a job that should go on has '
    'ended no chunk; NULL where it should not. A verification goes on while its lease is renewed.';
