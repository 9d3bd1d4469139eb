create function disarray.provision_event_partitions(p_months_ahead integer default 3)
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
set lock_timeout = '500ms'
-- A month begins when it begins in UTC, wherever the caller's session lives.
set timezone = 'UTC'
as $$
declare
    v_month timestamptz;
    v_name text;
    v_created integer := 0;
begin
    if (p_months_ahead between 0 and 120) is not true then
        raise exception 'partitions are made for 0 to 120 months ahead, not %. Nothing was changed.', p_months_ahead
        using errcode = 'DA001';
    end if;
    for v_month in
        select generate_series(
            date_trunc('month', clock(), 'UTC'),
            date_trunc('month', clock(), 'UTC') + make_interval(months => p_months_ahead),
            interval '1 month'
        )
    loop
        v_name := 'ingest_event_' || to_char(v_month at time zone 'UTC', 'YYYY_MM');
        continue when to_regclass('disarray.' || v_name) is not null;
        begin
            -- Two instances that start together must not both create it.
            perform enter_gate('partitions of events');
            -- Asked of the table itself: to_regclass remembers its "no" of before the wait.
            continue when exists (
                select
                from pg_class as made
                where
                    made.relname = v_name
                    and made.relnamespace = 'disarray'::regnamespace
            );
            -- Events of this month that came before its partition stay where they are, in the default one.
            continue when exists (
                select
                from ingest_event_default as stray
                where
                    stray.occurred_at >= v_month
                    and stray.occurred_at < v_month + interval '1 month'
            );
            execute format(
                'create table %I partition of ingest_event for values from (%L) to (%L)',
                v_name, v_month, v_month + interval '1 month'
            );
            execute format('comment on table %I is %L', v_name, 'Events of one month.');
            v_created := v_created + 1;
        exception when lock_not_available then
            -- Somebody is inside a commit, maybe frozen there. While we wait for the table, everybody waits for us.
            exit;
        end;
    end loop;
    return v_created;
end
$$;
comment on function disarray.provision_event_partitions(integer) is
    'Create the partitions of ingest_event for this month and the coming ones; how many were created. '
    'What cannot be created at once is left to the next call: the default partition catches its events.';

create function disarray.drop_old_events(p_keep interval)
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
set timezone = 'UTC'
as $$
declare
    v_limit constant timestamptz := date_trunc('month', clock() - p_keep, 'UTC');
    v_partition record;
    v_dropped integer := 0;
begin
    if (p_keep >= interval '1 month') is not true then
        raise exception 'events are kept for a month at least, not %. Nothing was dropped.', p_keep
        using errcode = 'DA001';
    end if;
    for v_partition in
        select child.relname as name
        from pg_inherits as link
        inner join pg_class as child on link.inhrelid = child.oid
        where
            link.inhparent = 'ingest_event'::regclass
            and child.relname ~ '^ingest_event_\d{4}_\d{2}$'
            and to_date(right(child.relname, 7), 'YYYY_MM') < (v_limit at time zone 'UTC')::date
    loop
        execute format('drop table %I', v_partition.name);
        v_dropped := v_dropped + 1;
    end loop;
    delete from ingest_event_default as stray
    where stray.occurred_at < v_limit;
    return v_dropped;
end
$$;
comment on function disarray.drop_old_events(interval) is 'Drop whole months of events that are older than the given time; how many partitions went.';

create function disarray.event_metadata(p_event disarray.ingest_event)
returns jsonb
language sql
stable
as $$
select p_event.metadata || jsonb_strip_nulls(jsonb_build_object(
    'queue_id', p_event.queue_id,
    'kind', p_event.kind,
    'reason', p_event.reason,
    'content_hash', p_event.content_hash,
    'enqueued_at', p_event.enqueued_at,
    'claimed_at', p_event.claimed_at
))
$$;
comment on function disarray.event_metadata(disarray.ingest_event) is 'All that an event says, wherever it is stored.';

create function disarray.event_queue_id(p_event disarray.ingest_event)
returns bigint
language sql
immutable
as $$
select coalesce(p_event.queue_id, (p_event.metadata ->> 'queue_id')::bigint)
$$;
comment on function disarray.event_queue_id(disarray.ingest_event) is 'The work order that an event is about, wherever that is stored.';

create function disarray.newest_failure(p_subject_key text, p_kind text, p_since timestamptz)
returns text
language sql
stable
as $$
select happened.metadata ->> 'error'
from disarray.ingest_event as happened
where
    happened.occurred_at >= p_since
    and happened.subject_key = p_subject_key
    and happened.event_type in ('failed', 'dead_letter')
    and disarray.event_metadata(happened) ->> 'kind' = p_kind
order by happened.occurred_at desc
limit 1
$$;
comment on function disarray.newest_failure(text, text, timestamptz) is 'Why an order of a subject failed last since an instant; NULL where none did.';

create function disarray.list_file_events(p_source_uri text, p_limit integer default 1000)
returns table (occurred_at timestamptz, event_type text, instance_name text, metadata jsonb)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    noted.occurred_at,
    noted.event_type::text,
    noted.instance_name,
    event_metadata(noted)
from ingest_event as noted
where noted.source_uri = p_source_uri
order by
    noted.occurred_at desc,
    noted.event_id desc
limit p_limit
$$;
comment on function disarray.list_file_events(text, integer) is 'All that happened to a file, newest first.';

create function disarray.list_events(
    p_since timestamptz,
    p_subject_key text default null,
    p_source_uri text default null,
    p_event_type text default null,
    p_limit integer default 100,
    p_after text[] default null,
    p_queue_id bigint default null
)
returns table (
    occurred_at timestamptz,
    event_type text,
    source_uri text,
    subject_key text,
    instance_name text,
    metadata jsonb,
    event_id bigint
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    noted.occurred_at,
    noted.event_type::text,
    noted.source_uri,
    noted.subject_key,
    noted.instance_name,
    event_metadata(noted),
    noted.event_id
from ingest_event as noted
where
    noted.occurred_at >= p_since
    -- By itself too: the index that tells stretches of time apart knows no pairs.
    and noted.occurred_at <= coalesce(p_after[1]::timestamptz, 'infinity')
    and (noted.occurred_at, noted.event_id) < (
        coalesce(p_after[1]::timestamptz, 'infinity'), coalesce(p_after[2]::bigint, 9223372036854775807)
    )
    and (p_subject_key is null or noted.subject_key = p_subject_key)
    and (p_source_uri is null or noted.source_uri = p_source_uri)
    and (p_event_type is null or noted.event_type::text = p_event_type)
    and (p_queue_id is null or event_queue_id(noted) = p_queue_id)
order by
    noted.occurred_at desc,
    noted.event_id desc
limit p_limit
$$;
comment on function disarray.list_events(timestamptz, text, text, text, integer, text[], bigint) is 'What happened since an instant, newest first.';

create function disarray.count_events(p_since timestamptz)
returns table (event_type text, events bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    noted.event_type::text,
    count(*)
from ingest_event as noted
where noted.occurred_at >= p_since
group by noted.event_type
order by noted.event_type
$$;
comment on function disarray.count_events(timestamptz) is 'How often what happened since an instant; what did not happen is left out.';
