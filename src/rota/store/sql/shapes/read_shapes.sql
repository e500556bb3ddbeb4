select id, cpu_milli, memory_bytes, disk_bytes, gpus, ports, iops, gpu_milli, bandwidth_kbit, custom, require
from shapes where id = any($1)
