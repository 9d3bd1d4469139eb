-- Subjects that were only ever announced do not keep those waiting that have numbers.
-- breaking: no

alter table disarray.subject
add column has_numbers boolean not null default false;
comment on column disarray.subject.has_numbers is
    'Whether anything was ever committed for it. Others are newcomers: anybody who may announce files can invent any number of them.';

update disarray.subject as subject
set has_numbers = true
where exists (
    select
    from disarray.subject_version as made
    where made.subject_key = subject.subject_key
);

create index subject_with_numbers_in_turn
on disarray.subject (next_turn_at, subject_key)
where next_turn_at is not null and has_numbers;

create index newcomer_in_turn
on disarray.subject (next_turn_at, subject_key)
where next_turn_at is not null and not has_numbers;

drop index disarray.subject_in_turn;
