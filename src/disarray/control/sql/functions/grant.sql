-- Who may call what. Nobody but the owner has any privilege on a table.

-- Functions are replaced where they are, and keep what was granted on them before.
revoke all on all functions in schema disarray
from public, disarray_agent, disarray_producer, disarray_worker, disarray_operator, disarray_reader;
revoke all on all tables in schema disarray from public;
revoke all on all sequences in schema disarray from public;
revoke all on schema disarray from public;
do $$
declare
    v_routine regprocedure;
begin
    -- Only ours: users may keep functions of their own in this schema.
    for v_routine in
        select routine.oid
        from pg_proc as routine
        where
            routine.pronamespace = 'telemetry'::regnamespace
            and routine.proowner = current_user::regrole
            and routine.proname = any((select release.telemetry_routines from disarray.function_release() as release)::text[])
    loop
        execute format('revoke all on function %s from public', v_routine);
    end loop;
end
$$;
revoke all on schema telemetry from public;
grant usage on schema disarray to disarray_agent, disarray_producer, disarray_worker, disarray_operator, disarray_reader;
-- Tables of readings and the views over them say themselves who may read and fill them.
grant usage on schema telemetry to disarray_worker, disarray_operator, disarray_reader;
grant usage, create on schema telemetry to disarray_views;

grant execute on function
    disarray.enqueue_file,
    disarray.enqueue_files
to disarray_agent, disarray_worker, disarray_operator;

grant execute on function
    disarray.record_events
to disarray_producer, disarray_operator;

grant execute on function
    disarray.register_instance,
    disarray.fetch_items,
    disarray.complete_item,
    disarray.complete_items,
    disarray.fail_item,
    disarray.fail_items,
    disarray.release_subject,
    disarray.hand_over_items,
    disarray.renew_subjects,
    disarray.return_unknown_claims,
    disarray.assert_subject_held,
    disarray.mark_dirty,
    disarray.reconcile_subject,
    disarray.assert_in_force,
    disarray.commit_subject,
    disarray.put_rows,
    disarray.finish_commit,
    disarray.is_committed,
    disarray.prepare_months,
    disarray.number_sources,
    disarray.number_values,
    disarray.clear_rows,
    disarray.provision_event_partitions,
    disarray.begin_housekeeping,
    disarray.end_housekeeping,
    disarray.queue_compaction,
    disarray.compact_segments,
    disarray.seal_segments,
    disarray.load_kept_fragments,
    disarray.doom_lake_files,
    disarray.forget_lake_files,
    disarray.forget_history,
    disarray.drop_commits,
    disarray.next_batch,
    disarray.record_deliveries,
    disarray.note_deleted_deliveries,
    disarray.claim_source,
    disarray.renew_source,
    disarray.advance_source,
    disarray.end_source_turn,
    disarray.claim_raw_events,
    disarray.settle_raw_events,
    disarray.release_raw_events,
    disarray.forget_raw_events,
    disarray.claim_view,
    disarray.begin_view_refresh,
    disarray.end_view_refresh,
    disarray.register_destination,
    disarray.claim_destination,
    disarray.claim_destination_subject,
    disarray.list_destination_stretch,
    disarray.measure_destination,
    disarray.renew_destination,
    disarray.advance_destination,
    disarray.end_destination_turn,
    disarray.note_destination_error,
    disarray.register_hooks,
    disarray.note_conditions,
    disarray.claim_side_effect,
    disarray.settle_side_effect,
    disarray.release_side_effect,
    disarray.forget_side_effects,
    disarray.forget_backfills,
    disarray.lock_backfill_scan,
    disarray.add_backfill_chunk,
    disarray.claim_backfill_chunk,
    disarray.hold_backfill_chunk,
    disarray.renew_backfill_chunk,
    disarray.cut_backfill_chunk,
    disarray.complete_backfill_chunk,
    disarray.fail_backfill_chunk,
    disarray.stop_backfill,
    disarray.note_backfill_hold,
    disarray.claim_backfill_verification,
    disarray.renew_backfill_verification,
    disarray.record_backfill_verdict,
    disarray.list_active_backfills
to disarray_worker;

grant execute on function
    disarray.bind_instance,
    disarray.pause_instance,
    disarray.drain_instance,
    disarray.resume_instance,
    disarray.reingest_file,
    disarray.blacklist_file,
    disarray.allow_file,
    disarray.retry_dead_letters,
    disarray.discard_dead_letters,
    disarray.replay_raw_events,
    disarray.correct_raw_event,
    disarray.discard_raw_events,
    disarray.request_reconcile,
    disarray.release_file,
    disarray.reject_file,
    disarray.change_store,
    disarray.create_token,
    disarray.find_token,
    disarray.list_tokens,
    disarray.revoke_token,
    disarray.begin_request,
    disarray.keep_answer,
    disarray.decide_source,
    disarray.put_view,
    disarray.drop_view,
    disarray.decide_destination,
    disarray.forget_destination,
    disarray.resend_side_effects,
    disarray.start_backfill,
    disarray.list_destination_stretch,
    disarray.measure_destination,
    disarray.decide_backfill,
    disarray.set_backfill_pace
to disarray_operator;

grant execute on function
    disarray.preview_commit,
    disarray.follow_commits,
    disarray.advance_follower,
    disarray.unfollow_commits,
    disarray.high_event_us,
    disarray.load_fingerprints,
    disarray.load_file_homes,
    disarray.load_file_parts,
    disarray.load_part_deliveries,
    disarray.load_part_parents,
    disarray.load_moving_files,
    disarray.queue_moves,
    disarray.matching_rules,
    disarray.note_matching,
    disarray.find_same_content,
    disarray.queue_copies,
    disarray.provision_readings,
    disarray.register_dataset,
    disarray.queue_rebuilds,
    disarray.load_rebuild_files,
    disarray.find_sealed_segments,
    disarray.drop_old_events,
    disarray.list_cold_segments,
    disarray.list_expired_segments,
    disarray.list_dead_lake_files,
    disarray.note_side_effects
to disarray_operator, disarray_worker;

grant execute on function
    disarray.current_us,
    disarray.queue_status,
    disarray.list_waiting,
    disarray.list_instances,
    disarray.list_queue,
    disarray.list_files,
    disarray.instance_state,
    disarray.list_file_events,
    disarray.list_events,
    disarray.count_events,
    disarray.list_runs,
    disarray.list_commits,
    disarray.list_followers,
    disarray.list_subject_states,
    disarray.list_dead_letters,
    disarray.list_raw_events,
    disarray.count_raw_events,
    disarray.list_hooks,
    disarray.list_side_effects,
    disarray.count_side_effects,
    disarray.list_backfills,
    disarray.list_backfill_chunks,
    disarray.live_health,
    disarray.explain_segment,
    disarray.list_metric_restatements,
    disarray.sum_figures,
    disarray.lateness_histogram,
    disarray.describe_file,
    disarray.list_subjects,
    disarray.load_definition,
    disarray.definition_in_force,
    disarray.load_subject_versions,
    disarray.list_rebuilds,
    disarray.count_moving_files,
    disarray.list_known_files,
    disarray.list_unmatched_files,
    disarray.list_split_files,
    disarray.count_rebuilt,
    disarray.list_quarantine,
    disarray.load_segments,
    disarray.store_of,
    disarray.list_copies,
    disarray.name_sources,
    disarray.rows_relation,
    disarray.load_segment_fragments,
    disarray.load_file_fragments,
    disarray.load_withdrawn_fragments,
    disarray.load_lake_checksums,
    disarray.load_arrivals,
    disarray.list_conflicts,
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
    disarray.load_rejected_positions,
    disarray.find_unknown_lake_files,
    disarray.oldest_claim_age,
    disarray.audit_files,
    disarray.audit_leases,
    disarray.audit_progress,
    disarray.audit_limits,
    disarray.audit_readings,
    disarray.audit_commits,
    disarray.audit_origins,
    disarray.audit_restatements,
    disarray.audit_notices,
    disarray.audit_file_records,
    disarray.audit_deliveries,
    disarray.list_settled_restatements,
    disarray.list_views,
    disarray.list_view_refreshes,
    disarray.audit_dimensions,
    disarray.audit_numbers,
    disarray.load_base_chains,
    disarray.list_live_lake_files,
    disarray.list_batches,
    disarray.list_sources,
    disarray.list_spent_deliveries,
    disarray.find_unknown_deliveries,
    disarray.list_destinations,
    disarray.list_destination_subjects
to disarray_reader, disarray_operator, disarray_worker;

grant execute on function
    disarray.list_migrations,
    disarray.function_release
to disarray_agent, disarray_worker, disarray_operator, disarray_reader;
