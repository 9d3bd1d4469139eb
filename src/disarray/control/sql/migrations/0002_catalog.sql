-- The catalog: what was read of which file, where it lies, and what follows from it.
-- breaking: yes

create type disarray.fragment_state as enum (
    'active',
    'parked',
    'rejected',
    'sealed',
    'dropped'
);
comment on type disarray.fragment_state is
    'active: counts. parked: waits for an operator, counts for nothing. rejected: an operator wants none of it, as long as '
    'the file says nothing else. sealed: counted when its segment was sealed, its readings are no longer kept. '
    'dropped: gone. The bytes of the last two wait for the vacuum.';

create table disarray.dataset_version (
    dataset text not null,
    parse_version text not null,
    scan_version text not null,
    definition json not null,
    registered_at timestamptz not null,
    in_force_since timestamptz not null,
    superseded_at timestamptz,
    constraint dataset_version_pkey primary key (dataset, parse_version, scan_version)
);
comment on table disarray.dataset_version is
    'Every definition that a dataset ever had. Commits hold the row of the one in force, so that it changes between them.';
comment on column disarray.dataset_version.definition is
    'As it was written, so that it can be read again: json, because jsonb keeps neither the order of columns nor 1e5 a float.';
comment on column disarray.dataset_version.superseded_at is 'NULL: in force.';
create unique index one_definition_is_in_force
on disarray.dataset_version (dataset)
where superseded_at is null;

create table disarray.subject_version (
    subject_key text not null,
    dataset text not null,
    parse_version text not null,
    scan_version text not null,
    constraint subject_version_pkey primary key (subject_key, dataset),
    constraint a_subject_is_made_under_a_known_definition
    foreign key (dataset, parse_version, scan_version) references disarray.dataset_version
);
comment on table disarray.subject_version is
    'The one definition under which all fragments, segments, summaries and rollup parts of a subject were made. '
    'Another one in force means: a rebuild is pending, and moves all of them in one commit.';

create table disarray.metric (
    dataset text not null,
    scan_version text not null,
    metric text not null,
    kind text not null,
    method text not null,
    max_gap_us bigint,
    is_integer boolean not null,
    unit text not null,
    constraint metric_pkey primary key (dataset, scan_version, metric),
    constraint kind_is_known check (kind in ('sum', 'count', 'integral', 'increase', 'min', 'max')),
    constraint integrals_know_their_gap check (kind <> 'integral' or max_gap_us is not null)
);
comment on table disarray.metric is 'The metrics of each definition: what a recompute needs to know of them.';

create table disarray.run (
    run_id uuid not null,
    subject_key text not null,
    instance_name text not null,
    fence bigint not null,
    committed_at timestamptz not null,
    metadata jsonb not null default '{}',
    constraint run_pkey primary key (run_id, subject_key)
);
comment on table disarray.run is
    'One row per committed pass over a subject. A commit whose reply was lost is settled by looking here, under the lock row.';
create index run_of_subject
on disarray.run (subject_key, committed_at);
create index run_in_time
on disarray.run (committed_at);

create table disarray.figure (
    hour_at timestamptz not null,
    instance_name text not null,
    commits bigint not null,
    files_read bigint not null,
    files_unchanged bigint not null,
    files_parked bigint not null,
    readings_seen bigint not null,
    readings_kept bigint not null,
    readings_duplicate bigint not null,
    readings_rejected bigint not null,
    readings_parked bigint not null,
    lines_blank bigint not null,
    readings_scanned bigint not null,
    segments_scanned bigint not null,
    segments_changed bigint not null,
    bases_shifted bigint not null,
    restatements bigint not null,
    late_readings bigint not null,
    repair_readings bigint not null,
    repair_bases bigint not null,
    lateness_files bigint[] not null,
    lateness_seconds float8 not null,
    constraint figure_pkey primary key (hour_at, instance_name)
) with (fillfactor = 50);
comment on table disarray.figure is
    'What was committed in an hour by an instance, counted: each adds to a row of its own, so that no commit waits for another.';
comment on column disarray.figure.readings_seen is 'Lines of arriving files: kept + duplicate + rejected + parked + blank.';
comment on column disarray.figure.late_readings is 'Readings that count and came behind the newest of their subject.';
comment on column disarray.figure.repair_readings is 'Readings that had to be scanned again because of late ones.';
comment on column disarray.figure.repair_bases is 'Bases that were shifted because of late ones.';
comment on column disarray.figure.lateness_files is
    'Arriving files by how far their last reading lay behind the newest of the subject: up to each bound of lateness_bounds(), and beyond.';

create table disarray.file_fingerprint (
    source_uri text primary key,
    fingerprint bytea not null,
    content_hash text not null,
    parse_version text not null,
    run_id uuid not null
);
create index file_fingerprint_by_content
on disarray.file_fingerprint (content_hash);
comment on table disarray.file_fingerprint is
    'Block hashes and parser checkpoints of the version whose readings are in, so that the next read costs what changed.';

create table disarray.rejected_row (
    source_uri text not null,
    position bigint not null,
    line bigint not null,
    reason text not null,
    detail text not null,
    sample text not null,
    run_id uuid not null,
    constraint rejected_row_pkey primary key (source_uri, position)
);
comment on table disarray.rejected_row is
    'Lines that could not become readings, with the reason and a sample; the first thousand of each file, file_info counts all.';

create table disarray.lake_file (
    path text primary key,
    bytes bigint not null,
    checksum text not null,
    run_id uuid not null,
    created_at timestamptz not null,
    doomed_at timestamptz
);
comment on table disarray.lake_file is 'Every Parquet file that a commit named. What lies in the lake and not here is the orphan of a dead run.';
comment on column disarray.lake_file.doomed_at is 'Since when the vacuum may delete the file: from then on no commit can name it any more.';

create table disarray.fragment (
    fragment_id bigint generated always as identity primary key,
    dataset text not null,
    subject_key text not null,
    segment_us bigint not null,
    source_uri text not null,
    generation integer not null,
    path text not null,
    row_group integer not null,
    readings bigint not null,
    first_position bigint not null,
    last_position bigint not null,
    cut_position bigint,
    first_us bigint not null,
    last_us bigint not null,
    parse_version text not null,
    state disarray.fragment_state not null,
    run_id uuid not null,
    created_at timestamptz not null,
    dropped_at timestamptz,
    constraint what_went_says_when check ((state in ('sealed', 'dropped')) = (dropped_at is not null)),
    constraint a_cut_leaves_something check (cut_position is null or cut_position > first_position),
    constraint fragment_has_readings check (readings > 0)
);
comment on table disarray.fragment is 'What one version of one file says about one segment. The truth about what is visible.';
comment on column disarray.fragment.cut_position is 'Readings at this position of the file and beyond were replaced and no longer count. NULL: all count.';
comment on column disarray.fragment.dropped_at is 'Since when its readings are not needed. Readers that began before may still be at them.';
create index fragment_of_segment
on disarray.fragment (dataset, subject_key, segment_us)
where state in ('active', 'parked', 'sealed');
create index fragment_in_quarantine
on disarray.fragment (source_uri)
where state = 'parked';
create index fragment_in_file
on disarray.fragment (path);
-- Files of equal content share their row groups: each has its own entry, and the bytes are there once.
create unique index a_file_names_a_row_group_once
on disarray.fragment (source_uri, path, row_group)
where state in ('active', 'parked');

create table disarray.segment (
    dataset text not null,
    subject_key text not null,
    segment_us bigint not null,
    segment_end_us bigint not null,
    revision bigint not null,
    readings bigint not null,
    duplicates bigint not null,
    conflicts bigint not null,
    first_us bigint not null,
    last_us bigint not null,
    digest text not null,
    scan_version text not null,
    run_id uuid not null,
    sealed_at timestamptz,
    constraint segment_pkey primary key (dataset, subject_key, segment_us),
    constraint segment_has_readings check (readings > 0)
) with (fillfactor = 80);
comment on table disarray.segment is 'One row per segment that has readings. "Emptied" equals "never existed".';
comment on column disarray.segment.sealed_at is 'Since when its readings are no longer kept: its numbers can change no more, what comes for it is parked.';

create table disarray.segment_metric (
    dataset text not null,
    subject_key text not null,
    metric text not null,
    channel text not null,
    segment_us bigint not null,
    piece smallint not null,
    readings bigint not null,
    points bigint not null,
    total_float float8,
    total_int bigint,
    first_us bigint,
    first_float float8,
    first_int bigint,
    first_break text,
    first_reset text,
    last_us bigint,
    last_float float8,
    last_int bigint,
    last_break text,
    last_reset text,
    base_float float8,
    base_int bigint,
    before_float float8,
    before_int bigint,
    prior_us bigint,
    prior_float float8,
    prior_int bigint,
    prior_break text,
    first_reading_us bigint,
    last_reading_us bigint,
    constraint segment_metric_pkey primary key (dataset, subject_key, metric, channel, segment_us, piece),
    constraint piece_is_head_or_tail check (piece in (0, 1)),
    constraint points_have_ends check ((points > 0) = (first_us is not null and last_us is not null))
) with (fillfactor = 80);
comment on table disarray.segment_metric is
    'Summary and base of a metric in a segment. Piece 0: up to the first reset, or all; piece 1: from the last reset on.';
comment on column disarray.segment_metric.base_float is 'What the fold within the piece is added to: the value before it, and the step from the point before it.';
comment on column disarray.segment_metric.before_float is 'The value just before the first reading: what readings before the first point show.';
comment on column disarray.segment_metric.prior_us is 'The point before this piece that its first point continues from; NULL where it starts anew.';
comment on column disarray.segment_metric.first_reading_us is 'The first reading of the piece, a point or not.';
comment on column disarray.segment_metric.last_reading_us is 'The last reading of the piece: from here to the next segment of the channel its value holds.';
create index segment_metric_in_time
on disarray.segment_metric (dataset, subject_key, segment_us);

create table disarray.rollup (
    dataset text not null,
    subject_key text not null,
    rollup text not null,
    aggregate text not null,
    channel text not null,
    bucket_us bigint not null,
    segment_us bigint not null,
    bucket_end_us bigint not null,
    label text not null,
    points bigint not null,
    value_float float8,
    value_int bigint,
    at_us bigint,
    pivot float8,
    offset_sum float8,
    offset_square_sum float8,
    constraint rollup_pkey primary key (dataset, subject_key, rollup, aggregate, channel, bucket_us, segment_us)
);
comment on table disarray.rollup is
    'What a segment contributes to a bucket. A bucket that crosses segments is put together at read, in the order of time.';
comment on column disarray.rollup.value_float is 'Sum (also for avg), min, max, first or last; at_us says when, for the last two.';
comment on column disarray.rollup.pivot is 'For stddev: the first value of the part; the sums are of (x - pivot) and of its square.';
create index rollup_of_segment
on disarray.rollup (dataset, subject_key, segment_us);

create table disarray.restatement (
    restatement_id bigint generated always as identity primary key,
    run_id uuid not null,
    dataset text not null,
    subject_key text not null,
    metric text not null,
    channel text not null,
    changed_from timestamptz not null,
    old_float float8,
    old_int bigint,
    new_float float8,
    new_int bigint,
    source_uris text[] not null,
    is_redefined boolean not null,
    restated_at timestamptz not null
);
comment on table disarray.restatement is
    'Every commit that changed numbers which people may have used already: what, from when on, by how much, because of which files.';
comment on column disarray.restatement.is_redefined is 'The definition of the dataset changed, and its numbers with it.';
create index restatement_of_subject
on disarray.restatement (subject_key, restated_at);
