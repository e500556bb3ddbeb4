select tenant, key, cooled_until from concurrency_keys where cooled_until > now() order by tenant, key
