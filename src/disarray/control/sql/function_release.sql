-- Written anew with the functions of each program: whoever replaces or drops them takes this along.
create function disarray.function_release()
returns table (functions_hash text, program_version text, telemetry_routines text[])
language sql
immutable
security definer
set search_path = disarray, pg_temp
as $$
select
    {functions_hash}::text,
    {program_version}::text,
    {telemetry_routines}::text[]
$$;
comment on function disarray.function_release() is 'Which program these functions are of, and what it created in the schema telemetry.';
