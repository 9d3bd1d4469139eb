-- Files that change their dataset or subject, and those that no dataset takes any more.
-- breaking: yes

create table disarray.moving_file (
    subject_key text not null,
    dataset text not null,
    source_uri text not null,
    is_arriving boolean not null,
    generation integer,
    stale_from timestamptz not null,
    noted_at timestamptz not null,
    constraint moving_file_pkey primary key (subject_key, dataset, source_uri)
);
comment on table disarray.moving_file is
    'Files on their way from one dataset or subject to another. The commit on one side writes a row for the other, with the item '
    'that does it; the commit there deletes it. Until then numbers there are stale.';
comment on column disarray.moving_file.is_arriving is
    'True: the file left another subject and is still to be read here. False: it was read elsewhere, and what it says here is still to go.';
comment on column disarray.moving_file.generation is
    'The generation of the file that leaves, earlier ones stay; NULL: all that it ever said leaves.';

create table disarray.file_matching (
    is_current boolean primary key default true,
    rules text not null,
    matched_at timestamptz not null,
    constraint there_is_one_matching check (is_current)
);
comment on table disarray.file_matching is
    'The rules (name, roots, files and subject of every dataset) that all known files were last held against.';

create table disarray.unmatched_file (
    source_uri text primary key,
    noted_at timestamptz not null
);
comment on table disarray.unmatched_file is
    'Files that were taken in and that no dataset takes any more. What they said stays as it was, until they are blacklisted.';

-- What a file says is looked up by its name in every pass, also what was rejected or sealed.
create index fragment_of_file
on disarray.fragment (source_uri)
where state <> 'dropped';
