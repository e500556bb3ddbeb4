select name, cpu_milli, memory_bytes, disk_bytes, iops, gpus, bandwidth_kbit from tiers
order by cpu_milli, memory_bytes, name
