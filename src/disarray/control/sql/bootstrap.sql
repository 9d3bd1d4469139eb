-- Before the first migration: roles, the schema, and the memory of what was applied.
do $$
declare
    v_role text;
begin
    foreach v_role in array array[
        'disarray_owner', 'disarray_agent', 'disarray_producer', 'disarray_worker', 'disarray_operator', 'disarray_reader',
        'disarray_views'
    ]
    loop
        -- Roles belong to the whole server: who migrates a second database of it need not be able to create any.
        continue when exists (select from pg_roles where rolname = v_role);
        begin
            execute format('create role %I nologin', v_role);
        exception
            -- Another database of the server may be creating them now.
            when duplicate_object or unique_violation then null;
        end;
    end loop;
    begin
        -- Since PostgreSQL 16 whoever creates a role may grant it, but does not have it.
        if not (select rolsuper from pg_roles where rolname = current_user) then
            execute format('grant disarray_owner to %I', current_user);
        end if;
    exception
        -- No right to grant it: the role was given before, or the next statement says what is missing.
        when insufficient_privilege then null;
    end;
    begin
        -- Views read what readers read. Who makes or refreshes one acts as their owner for that statement, and has nothing of it else.
        if not pg_has_role('disarray_views', 'disarray_reader', 'usage') then
            grant disarray_reader to disarray_views;
        end if;
        -- Gives back to it what was made anew with the table that it reads from.
        if not pg_has_role('disarray_owner', 'disarray_views', 'usage') then
            grant disarray_views to disarray_owner;
        end if;
        foreach v_role in array array['disarray_operator', 'disarray_worker']
        loop
            continue when pg_has_role(v_role, 'disarray_views', 'member');
            if current_setting('server_version_num')::integer >= 160000 then
                execute format('grant disarray_views to %I with inherit false, set true', v_role);
            else
                execute format('alter role %I noinherit', v_role);
                execute format('grant disarray_views to %I', v_role);
            end if;
        end loop;
    exception
        -- disarray view apply says what is missing.
        when insufficient_privilege then null;
    end;
end
$$;

create schema if not exists disarray authorization disarray_owner;
create schema if not exists telemetry authorization disarray_owner;
set local role disarray_owner;
comment on schema disarray is 'The control plane of disarray. Its functions are the way in; its tables are private.';
comment on schema telemetry is 'Derived numbers: how they are computed, and where people read them.';

create table if not exists disarray.schema_migration (
    version integer primary key,
    name text not null,
    checksum text not null,
    is_breaking boolean not null,
    applied_at timestamptz not null default clock_timestamp()
);
comment on table disarray.schema_migration is
    'Migrations that were applied. is_breaking: a program that does not know this migration must not use the schema.';
