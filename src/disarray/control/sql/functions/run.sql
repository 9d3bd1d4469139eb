-- Committed passes over subjects.

create function disarray.list_runs(
    p_subject_key text default null,
    p_since timestamptz default '-infinity',
    p_limit integer default 100,
    p_after text[] default null
)
returns table (run_id uuid, subject_key text, instance_name text, committed_at timestamptz, metadata jsonb)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    done.run_id,
    done.subject_key,
    done.instance_name,
    done.committed_at,
    done.metadata
from run as done
where
    (p_subject_key is null or done.subject_key = p_subject_key)
    and done.committed_at >= p_since
    and done.committed_at <= coalesce(p_after[1]::timestamptz, 'infinity')
    and (done.committed_at, done.run_id, done.subject_key) < (
        coalesce(p_after[1]::timestamptz, 'infinity'),
        coalesce(p_after[2]::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
        coalesce(p_after[3], '')
    )
order by
    done.committed_at desc,
    done.run_id desc,
    done.subject_key desc
limit p_limit
$$;
comment on function disarray.list_runs(text, timestamptz, integer, text[]) is 'Committed passes over subjects, newest first.';
