-- Everything about some tasks. Row-level security confines it to the caller's tenant; the condition repeats that.
select tasks.*, tenants.name as tenant_name, pools.name as pool_name, servers.name as server_name,
    shapes.cpu_milli, shapes.memory_bytes, shapes.disk_bytes, shapes.gpus, shapes.ports, shapes.custom, shapes.require,
    shapes.iops, shapes.gpu_milli, shapes.bandwidth_kbit, lanes.name as lane_name,
    (select original.name from lanes original where original.rank = tasks.lane) as submitted_lane, last.lane as ran_lane,
    queue.state as live_state, queue.attempt as live_attempt, queue.wake_at as live_wake_at,
    queue.started_at as live_started_at, queue.cancel_requested, queue.pause_requested, live_node.name as live_node,
    final.number as final_number, final.state as final_state, final.ended_at, final.exit_code, final.result,
    final.failure, final.reason, final.run_us, final.cpu_ms, final.peak_memory_bytes, final.written_bytes, final.started_at as final_started_at,
    final.outcome as final_outcome, final.log_bytes, final.log_dropped_bytes, final_node.name as final_node,
    last.number as last_number, last.failure as last_failure, last.exit_code as last_exit_code,
    reruns.rerun as retried_as, queue.cap_ms as live_cap_ms, queue.not_before as moved_to,
    pools.id as pool_now, queue.version as live_version, -queue.urgency as live_priority, queue.start_by as live_start_by,
    queue.tolerance_ms as live_tolerance_ms, queue.leeway_ms as live_leeway_ms, queue.held_reason, queue.expires as live_expires,
    (
        select json_agg(json_build_object('user', edit.user_name, 'at', edit.at, 'changes', edit.changes) order by edit.id)
        from task_edits edit where edit.task = tasks.id
    ) as edits,
    array(
        select dependents.task from dependents where dependents.tenant = $2 and dependents.parent = tasks.id
        order by dependents.task limit $3
    ) as dependents,
    progress.fraction, progress.message as progress_message, progress.at as progress_at,
    member.graph, member.item as array_index, case when member.item is null then member.name end as name_in_graph,
    (
        select graphs.id from graphs where graphs.id = member.graph and member.parent is null and graphs.from_task
    ) as own_graph,
    (select schedules.name from schedules where schedules.id = tasks.schedule) as schedule_name
from tasks
join tenants on tenants.id = tasks.tenant
join shapes on shapes.id = tasks.shape
left join servers on servers.id = tasks.server
left join queue on queue.id = tasks.id
join pools on pools.id = coalesce(queue.pool, tasks.pool)
left join nodes live_node on live_node.id = queue.node
left join lateral (
    select * from attempts where attempts.task = tasks.id and attempts.task = any($1) and attempts.state > 0 limit 1
) final on true
left join nodes final_node on final_node.id = final.node
left join lateral (
    select * from attempts where attempts.task = tasks.id and attempts.task = any($1) and attempts.number > 0
    order by attempts.number desc limit 1
) last on true
left join lanes on lanes.rank = coalesce({queue/lane_now}, last.lane, tasks.lane)
left join progress on progress.task = queue.id and progress.attempt = queue.attempt and queue.state = {RUNNING}
left join reruns on reruns.task = tasks.id
left join graph_tasks member on member.task = tasks.id
where tasks.id = any($1) and tasks.tenant = $2
