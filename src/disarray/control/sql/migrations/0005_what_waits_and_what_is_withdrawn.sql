-- What a blacklisted file said is kept until it is allowed again, and a version that waits is known by its hash.
-- breaking: no

alter table disarray.fragment
add column withdrawn_state disarray.fragment_state;
comment on column disarray.fragment.withdrawn_state is
    'Of a fragment that was dropped because its file was blacklisted: the state that it returns to when the file is allowed again.';
create index fragment_withdrawn
on disarray.fragment (source_uri)
where withdrawn_state is not null;

alter table disarray.file_info
add column parked_hash text,
add column parked_at timestamptz,
add column rejected_hash text;
comment on column disarray.file_info.parked_hash is 'Of a version that says less than the one whose readings are in: it waits for an operator. NULL: none does.';
comment on column disarray.file_info.parked_at is 'Since when a version waits.';
comment on column disarray.file_info.rejected_hash is 'Of the version that an operator rejected last: it is not asked about again.';

-- Before, a version that waited was known by the status alone, and not where readings were parked as well.
update disarray.file_info as file
set
    parked_hash = coalesce(file.announced_hash, 'unknown'),
    parked_at = file.last_seen_at
where
    file.status = 'parked'
    and (
        file.metadata ->> 'message' like 'the new version has %'
        or not exists (
            select
            from disarray.fragment as late
            where
                late.source_uri = file.source_uri
                and late.state = 'parked'
        )
    );
