create function disarray.clock()
returns timestamptz
language sql
stable
as $$
select clock_timestamp()
$$;
comment on function disarray.clock() is
    'The only clock. Wall time, not transaction time: a lease must be able to run out inside a transaction.';
