-- A resync reads one table of one server under one description from its beginning to its end.
-- breaking: yes

alter table disarray.resync add column server text;
alter table disarray.resync add column description text;
comment on column disarray.resync.server is 'The server whose table it reads, as the watermark of its source has it; empty where that does not tell.';
comment on column disarray.resync.description is 'A hash of all in disarray.toml that says which rows it takes, and whose they are. NULL: it began before this was kept.';
