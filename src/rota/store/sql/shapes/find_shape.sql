select id from shapes
where (cpu_milli, memory_bytes, disk_bytes, gpus, ports, iops, gpu_milli, bandwidth_kbit, custom, require)
    = ($1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb, $10::jsonb)
