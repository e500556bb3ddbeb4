-- A node that was given up came back and tells how long its attempt ran: only that is written into the attempt's row, and
-- only by the boot of the node that ran it. The attempt stays lost.
update attempts
set run_us = given.run_us, exit_code = given.exit_code, cpu_ms = given.cpu_ms, peak_memory_bytes = given.memory,
    log_bytes = given.log_bytes, log_dropped_bytes = given.log_dropped, written_bytes = given.written,
    frozen_us = nullif(given.frozen_us, 0)
from unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::integer[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::bigint[], $10::bigint[], $11::bigint[])
    as given (id, attempt, boot, run_us, exit_code, cpu_ms, memory, log_bytes, log_dropped, written, frozen_us)
where attempts.task = given.id and attempts.number = given.attempt and attempts.outcome = {Outcome.LOST}
    and attempts.task between ($1::bigint[])[1] and ($1::bigint[])[cardinality($1::bigint[])]
    and exists (select from nodes where nodes.id = attempts.node and nodes.boot = given.boot)
