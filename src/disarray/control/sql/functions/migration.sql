create function disarray.list_migrations()
returns table (version integer, name text, checksum text, is_breaking boolean)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    applied.version,
    applied.name,
    applied.checksum,
    applied.is_breaking
from schema_migration as applied
order by applied.version
$$;
comment on function disarray.list_migrations() is 'What was applied to this database, for programs that must know whether they can work with it.';
