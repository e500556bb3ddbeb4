select coalesce((select sum(size_bytes) from artifacts where tenant = $1), 0)
+ coalesce((select sum(size_bytes) from attempt_objects
    where tenant = $1 and object_key is not null), 0)
