-- Who may call what. Nobody but the owner has any privilege on a table.

revoke all on all functions in schema disarray from public;
revoke all on all tables in schema disarray from public;
revoke all on all sequences in schema disarray from public;
revoke all on schema disarray from public;
revoke all on all functions in schema telemetry from public;
revoke all on schema telemetry from public;
grant usage on schema disarray to disarray_agent, disarray_worker, disarray_operator, disarray_reader;

grant execute on function
    disarray.enqueue_file,
    disarray.enqueue_files
to disarray_agent, disarray_worker, disarray_operator;

grant execute on function
    disarray.register_instance,
    disarray.fetch_items,
    disarray.complete_item,
    disarray.complete_items,
    disarray.fail_item,
    disarray.release_subject,
    disarray.renew_subjects,
    disarray.return_unknown_claims,
    disarray.assert_subject_held,
    disarray.mark_dirty,
    disarray.reconcile_subject,
    disarray.register_dataset,
    disarray.commit_subject,
    disarray.is_committed,
    disarray.provision_event_partitions
to disarray_worker;

grant execute on function
    disarray.bind_instance,
    disarray.blacklist_file,
    disarray.allow_file,
    disarray.release_file,
    disarray.reject_file,
    disarray.drop_old_events
to disarray_operator;

grant execute on function
    disarray.preview_commit,
    disarray.high_event_us,
    disarray.load_fingerprints,
    disarray.find_same_content,
    disarray.find_other_version
to disarray_operator, disarray_worker;

grant execute on function
    disarray.current_us,
    disarray.queue_status,
    disarray.list_instances,
    disarray.list_queue,
    disarray.list_files,
    disarray.list_file_events,
    disarray.describe_file,
    disarray.list_subjects,
    disarray.list_quarantine,
    disarray.load_segments,
    disarray.load_segment_fragments,
    disarray.load_file_fragments,
    disarray.stale_from,
    disarray.load_bases,
    disarray.load_rollup,
    disarray.list_restatements,
    disarray.list_verified_subjects,
    disarray.load_subject_files,
    disarray.load_subject_fragments,
    disarray.load_subject_segments,
    disarray.load_subject_summaries,
    disarray.load_subject_rollup_parts,
    disarray.load_rejected_positions
to disarray_reader, disarray_operator, disarray_worker;

grant execute on function
    disarray.list_migrations
to disarray_agent, disarray_worker, disarray_operator, disarray_reader;
