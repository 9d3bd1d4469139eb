-- Fragments of many files in one row group: each is a run of its rows.
-- breaking: yes

alter table disarray.fragment
add column first_row integer;
comment on column disarray.fragment.first_row is
    'Where its readings begin in a row group that it shares with fragments of other files. NULL: the whole row group is its own.';
