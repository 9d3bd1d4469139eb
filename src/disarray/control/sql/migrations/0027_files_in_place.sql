-- A file that is taken in changes its row where it lies: no index has a column that this changes, and the page has room.
-- breaking: no

-- Nobody asked it: dead letters and the quarantine are found by what waits, not by the status, which every file changes.
drop index disarray.file_info_needs_attention;
create index file_info_parked
on disarray.file_info (parked_at, source_uri)
where parked_hash is not null;

-- Each file is announced and then taken in, and the second version of its row is the longer one: it knows the content.
alter table disarray.file_info set (fillfactor = 40);
