insert into shapes (cpu_milli, memory_bytes, disk_bytes, gpus, ports, iops, gpu_milli, bandwidth_kbit, custom,
    require)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict do nothing returning id
