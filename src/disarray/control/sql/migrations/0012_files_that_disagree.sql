-- Which file was announced when, by number, and which files disagree under one key.
-- breaking: no

create sequence disarray.arrival_seq;
comment on sequence disarray.arrival_seq is 'The order in which files were first announced. Times are not unique, and clocks are set back.';
alter table disarray.file_info
add column arrival bigint;
comment on column disarray.file_info.arrival is
    'Its number in the order of first announcements; later ones never change it. Files of one call have theirs in the order of their names.';
update disarray.file_info as file
set arrival = numbered.arrival
from (
    select
        known.source_uri,
        nextval('disarray.arrival_seq') as arrival
    from (
        select every.source_uri
        from disarray.file_info as every
        order by
            every.first_seen_at,
            every.source_uri collate "C"
    ) as known
) as numbered
where file.source_uri = numbered.source_uri;
alter table disarray.file_info
alter column arrival set default nextval('disarray.arrival_seq');

create table disarray.conflict (
    dataset text not null,
    subject_key text not null,
    segment_us bigint not null,
    winner_uri text not null,
    loser_uri text not null,
    conflicts bigint not null,
    examples jsonb not null,
    constraint conflict_pkey primary key (dataset, subject_key, segment_us, winner_uri, loser_uri),
    constraint a_conflict_has_readings check (conflicts > 0)
);
comment on table disarray.conflict is
    'Files that say different things under one key, by segment: whose readings count, whose do not, and how many.';
comment on column disarray.conflict.examples is
    'The earliest of a segment: event_us, channel, key_values, both positions, and by column the value that counts and the one that does not.';
create index conflict_of_subject
on disarray.conflict (subject_key, segment_us);
create index conflict_won
on disarray.conflict (winner_uri);
create index conflict_lost
on disarray.conflict (loser_uri);
