create function disarray.clock()
returns timestamptz
language sql
stable
as $$
select clock_timestamp()
$$;
comment on function disarray.clock() is
    'The only clock. Wall time, not transaction time: a lease must be able to run out inside a transaction.';

create function disarray.instant_of(p_us bigint)
returns timestamptz
language sql
immutable
as $$
select timestamptz '1970-01-01 00:00:00Z' + p_us * interval '1 microsecond'
$$;
comment on function disarray.instant_of(bigint) is 'The instant behind a count of microseconds since 1970, exact.';

create function disarray.microseconds_of(p_instant timestamptz)
returns bigint
language sql
immutable
as $$
select (extract(epoch from p_instant) * 1000000)::bigint
$$;
comment on function disarray.microseconds_of(timestamptz) is 'Microseconds since 1970, exact.';
