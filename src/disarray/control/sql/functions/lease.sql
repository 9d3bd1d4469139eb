-- Leases: what an instance holds until an instant, as long as it is not started again.

create function disarray.is_held(p_instance_name text, p_incarnation bigint, p_lease_expires_at timestamptz, p_now timestamptz)
returns boolean
language sql
stable
as $$
select coalesce(
    p_lease_expires_at > p_now
    -- A holder that was started again since holds nothing.
    and exists (
        select
        from disarray.instance as holder
        where
            holder.instance_name = p_instance_name
            and holder.incarnation = p_incarnation
    ),
    false
)
$$;
comment on function disarray.is_held(text, bigint, timestamptz, timestamptz) is
    'Whether a lease has not run out, and the instance that took it still lives.';
