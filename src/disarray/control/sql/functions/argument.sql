-- Refusals. Each says what was wrong and that nothing was stored.

create function disarray.is_plain_uri(p_source_uri text)
returns boolean
language sql
immutable
as $$
select octet_length(p_source_uri) <= 2048 and p_source_uri ~ '^file://(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+$'
$$;
comment on function disarray.is_plain_uri(text) is 'Whether a uri holds nothing that could be wrong or spelled otherwise, as most do.';

create function disarray.is_flat_metadata(p_metadata text)
returns boolean
language sql
immutable
as $$
select
    octet_length(p_metadata) <= 16384
    and starts_with(p_metadata, '{')
    and strpos(p_metadata, '[') = 0
    and octet_length(replace(p_metadata, '{', '')) = octet_length(p_metadata) - 1
$$;
comment on function disarray.is_flat_metadata(text) is 'Whether the text of a JSON value shows that it is a small object without another one in it, as most metadata is.';

create function disarray.check_uri(p_source_uri text)
returns void
language plpgsql
immutable
as $$
begin
    if disarray.is_plain_uri(p_source_uri) then
        return;
    end if;
    if p_source_uri is null
        or p_source_uri = ''
        or octet_length(p_source_uri) > 2048
        or p_source_uri ~ '[\u0001-\u001f\u007f-\u009f]'
    then
        raise exception 'source_uri % cannot be used: it must have 1 to 2048 bytes and no control characters. Nothing was stored.',
            coalesce(quote_literal(left(p_source_uri, 200)), 'NULL')
        using errcode = 'DA001', hint = 'Rename the file, or exclude it from the watched roots.';
    end if;
    if starts_with(p_source_uri, 'subject:') then
        raise exception 'source_uri must not begin with "subject:", which names no file. Nothing was stored.'
        using errcode = 'DA001';
    end if;
    -- A second spelling would be a second file: it would count although the first is blacklisted.
    if p_source_uri ~* '^(/|file:)' and (
        p_source_uri ~ '^/.*//|^//|/\.{0,2}$|/\.{1,2}/'
        or (p_source_uri !~ '^/' and p_source_uri !~ '^file://(/([A-Za-z0-9_.~!$&''()*+,;=:@-]|%[0-9A-F]{2})+)+(#[a-z][a-z0-9_]*=([A-Za-z0-9_.~-]|%[0-9A-F]{2})+)?$')
        -- Escaped without need; what is behind # is a part, and spelled by nobody else.
        or p_source_uri ~ '^file:[^#]*%(2[146-9A-F]|3[0-9ABD]|4[0-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])'
    ) then
        raise exception 'source_uri % is not the one spelling of its path. Nothing was stored.', quote_literal(left(p_source_uri, 200))
        using errcode = 'DA001',
            hint = 'Write file:// and the absolute path, without "//", "." or ".." in it, and escape only what a uri cannot hold.';
    end if;
end
$$;
comment on function disarray.check_uri(text) is
    'Refuse a uri that could not be stored, printed or indexed safely, and any but the one spelling of a path.';

create function disarray.check_subject(p_subject_key text)
returns void
language plpgsql
immutable
as $$
begin
    if p_subject_key is null
        or p_subject_key = ''
        or octet_length(p_subject_key) > 256
        or p_subject_key ~ '[\u0001-\u001f\u007f-\u009f]'
    then
        raise exception 'subject_key % cannot be used: it must have 1 to 256 bytes and no control characters. Nothing was stored.',
            coalesce(quote_literal(left(p_subject_key, 200)), 'NULL')
        using errcode = 'DA001', hint = 'Mend the subject rule of the dataset.';
    end if;
end
$$;
comment on function disarray.check_subject(text) is 'Refuse a subject key that could not be stored, printed or indexed safely.';

create function disarray.check_metadata(p_metadata jsonb)
returns void
language plpgsql
immutable
as $$
declare
    v_text constant text := p_metadata::text;
begin
    if p_metadata is null or jsonb_typeof(p_metadata) <> 'object' then
        raise exception 'metadata must be a JSON object. Nothing was stored.'
        using errcode = 'DA001';
    end if;
    if octet_length(v_text) > 16384 then
        raise exception 'metadata has % bytes, at most 16384 are stored. Nothing was stored.', octet_length(v_text)
        using errcode = 'DA001', hint = 'Keep large values in the file itself.';
    end if;
    if not disarray.is_flat_metadata(v_text)
        and jsonb_path_exists(p_metadata, 'strict $.**{8 to last}')
    then
        raise exception 'metadata is nested more than 8 levels deep. Nothing was stored.'
        using errcode = 'DA001';
    end if;
end
$$;
comment on function disarray.check_metadata(jsonb) is 'Refuse metadata that would let a sender fill the database.';

create function disarray.check_decision(p_reason text, p_by text)
returns void
language plpgsql
immutable
as $$
begin
    if coalesce(btrim(p_reason), '') = '' or coalesce(btrim(p_by), '') = '' then
        raise exception 'a decision about a file needs a reason and a name. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    if octet_length(p_reason) > 4000 or octet_length(p_by) > 128 or p_by ~ '[\u0001-\u001f\u007f-\u009f]' then
        raise exception 'a reason has at most 4000 bytes, a name at most 128 and no control characters. Nothing was changed.'
        using errcode = 'DA001';
    end if;
end
$$;
comment on function disarray.check_decision(text, text) is 'Refuse what an operator decides without saying why and who.';

create function disarray.caller()
returns text
language sql
stable
as $$
-- Inside a function that runs as its owner, current_user is the owner: these two are what the session really is.
select case when current_setting('role') = 'none' then session_user::text else current_setting('role') end
$$;
comment on function disarray.caller() is 'The role in which the session calls, whatever the function that asks runs as.';

create function disarray.decision_of(p_reason text, p_by text)
returns jsonb
language sql
stable
as $$
select jsonb_build_object('reason', p_reason, 'by', p_by, 'role', disarray.caller())
$$;
comment on function disarray.decision_of(text, text) is
    'What is written down with every decision: why, the name that was given, and the role that the database vouches for.';

create function disarray.reserved_keys()
returns text[]
language sql
immutable
as $$
select array[
    'reasons', 'release', 'release_readings', 'release_version', 'reason', 'by', 'role', 'why', 'part', 'queue_id',
    'outcome', 'change', 'bytes', 'lines', 'rejected', 'message', 'parked_hash', 'logical_start', 'logical_end',
    'sealed', 'run_id', 'conflicts', 'error'
]
$$;
comment on function disarray.reserved_keys() is
    'Keys of metadata that the server writes: what was decided, by whom, and what a worker found. Nobody announces them.';

create function disarray.check_announcements(p_reasons text[], p_metadata jsonb[])
returns void
language plpgsql
stable
set search_path = disarray, pg_temp
as $$
declare
    v_reason text;
    v_key text;
begin
    -- The owner of the schema can write into its tables: there is nothing to keep from it.
    if pg_has_role(caller(), current_user, 'usage') then
        return;
    end if;
    select given.reason
    into v_reason
    from unnest(p_reasons) as given (reason)
    where
        given.reason not in ('file_notification', 'quiet')
        -- A reason that nobody knows is refused as such.
        and parse_reason(given.reason) is not null
    limit 1;
    if found then
        raise exception 'role % may announce files (file_notification, quiet), and not ask for %. Nothing was stored.',
            caller(), quote_literal(left(v_reason, 200))
        using
            errcode = '42501',
            hint = 'Operators decide, with a reason and a name: reingest_file, blacklist_file, allow_file, release_file, reject_file.';
    end if;
    select key.name
    into v_key
    from unnest(p_metadata) as given (metadata)
    cross join unnest(reserved_keys()) as key (name)
    where
        given.metadata ?| reserved_keys()
        and given.metadata ? key.name
    limit 1;
    if found then
        raise exception 'metadata of an announcement must not have the key %: it is the server''s. Nothing was stored.', quote_literal(v_key)
        using errcode = 'DA001', hint = 'Send it under another name.';
    end if;
end
$$;
comment on function disarray.check_announcements(text[], jsonb[]) is
    'Refuse what only operators may ask for, and keys that are the server''s. The role of the caller decides, never what it sends.';

create function disarray.parse_reason(p_reason text)
returns disarray.ingest_queue_reason
language plpgsql
immutable
as $$
begin
    return p_reason::disarray.ingest_queue_reason;
exception when invalid_text_representation then
    raise exception 'reason % is not known. Nothing was stored.', quote_literal(left(p_reason, 200))
    using errcode = 'DA001', hint = format('Use one of: %s.', array_to_string(enum_range(null::disarray.ingest_queue_reason), ', '));
end
$$;
comment on function disarray.parse_reason(text) is 'The reason behind a text, or a refusal that lists what is known.';

create function disarray.file_order_kind(p_reason disarray.ingest_queue_reason)
returns disarray.ingest_queue_kind
language sql
immutable
as $$
-- Each branch as what it is. A cast of the whole is done anew at every call, and no plan takes such a function in.
select case
    when p_reason = 'remove' then 'remove'::disarray.ingest_queue_kind
    else 'read'::disarray.ingest_queue_kind
end
$$;
comment on function disarray.file_order_kind(disarray.ingest_queue_reason) is 'What is to be done to a file of which this is said or decided.';

create function disarray.lane_of(p_kind disarray.ingest_queue_kind)
returns disarray.ingest_queue_lane
language sql
immutable
as $$
-- As in file_order_kind.
select case
    when p_kind in ('read', 'remove', 'reconcile') then 'live'::disarray.ingest_queue_lane
    else 'backfill'::disarray.ingest_queue_lane
end
$$;
comment on function disarray.lane_of(disarray.ingest_queue_kind) is
    'The lane that an order of a kind takes: backfill where no new number waits for it.';

create function disarray.is_asked_for(p_reason disarray.ingest_queue_reason)
returns boolean
language sql
immutable
as $$
select p_reason in ('backfill', 'rebuild', 'reingest', 'allow', 'release', 'remove')
$$;
comment on function disarray.is_asked_for(disarray.ingest_queue_reason) is
    'Whether somebody asked for it on purpose; the rest comes by itself, and would come again.';

create function disarray.shown_reason(p_waiting disarray.ingest_queue_reason, p_new disarray.ingest_queue_reason)
returns disarray.ingest_queue_reason
language sql
immutable
as $$
select case
    when p_waiting is null or disarray.file_order_kind(p_waiting) <> disarray.file_order_kind(p_new) then p_new
    when disarray.is_asked_for(p_waiting) and not disarray.is_asked_for(p_new) then p_waiting
    when p_waiting = 'quiet' and not disarray.is_asked_for(p_new) then p_waiting
    else p_new
end
$$;
comment on function disarray.shown_reason(disarray.ingest_queue_reason, disarray.ingest_queue_reason) is
    'The reason that people see of two orders that became one: an announcement hides no decision, and of two decisions the later '
    'is shown. Metadata keeps all reasons.';

create function disarray.merged_metadata(p_old jsonb, p_new jsonb)
returns jsonb
language sql
immutable
as $$
select case
    when octet_length((p_old || p_new)::text) <= 16384 then p_old || p_new
    else p_new
end
$$;
comment on function disarray.merged_metadata(jsonb, jsonb) is
    'Later keys win. Ever new keys would grow a row without bound: past the cap of one request only the newest request stays.';

create function disarray.merged_request(
    p_waiting jsonb,
    p_waiting_reason disarray.ingest_queue_reason,
    p_new jsonb,
    p_new_reason disarray.ingest_queue_reason
)
returns jsonb
language sql
immutable
as $$
select case
    when jsonb_array_length(every.reasons) = 1 then disarray.merged_metadata(p_waiting, p_new)
    else disarray.merged_metadata(p_waiting, p_new) || jsonb_build_object('reasons', every.reasons)
end
from (
    -- Both may stand for several already: a returned claim merges into a row that took in others meanwhile.
    select jsonb_agg(distinct known.reason) as reasons
    from unnest(enum_range(null::disarray.ingest_queue_reason)) as known (reason)
    where
        known.reason in (p_waiting_reason, p_new_reason)
        or p_waiting -> 'reasons' ? known.reason::text
        or p_new -> 'reasons' ? known.reason::text
) as every
$$;
comment on function disarray.merged_request(jsonb, disarray.ingest_queue_reason, jsonb, disarray.ingest_queue_reason) is
    'Metadata of two requests that became one; "reasons" keeps every reason, because the row shows one.';

create aggregate disarray.merge_metadata(jsonb) (
    sfunc = jsonb_concat,
    stype = jsonb,
    initcond = '{}'
);
comment on aggregate disarray.merge_metadata(jsonb) is 'Objects merged in the order given; later keys win.';

create aggregate disarray.last_shown_reason(disarray.ingest_queue_reason) (
    sfunc = disarray.shown_reason,
    stype = disarray.ingest_queue_reason
);
comment on aggregate disarray.last_shown_reason(disarray.ingest_queue_reason) is 'The reason that people see of several requests, in the order given.';
