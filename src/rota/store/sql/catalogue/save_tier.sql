insert into tiers (name, cpu_milli, memory_bytes, disk_bytes, iops, gpus, bandwidth_kbit)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (name) do update set cpu_milli = excluded.cpu_milli, memory_bytes = excluded.memory_bytes,
    disk_bytes = excluded.disk_bytes, iops = excluded.iops, gpus = excluded.gpus,
    bandwidth_kbit = excluded.bandwidth_kbit
