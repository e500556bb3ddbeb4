select artifacts.tenant, artifacts.sha256, artifacts.name from artifacts
join unnest($1::integer[], $2::bytea[]) as named (tenant, sha256) using (tenant, sha256)
order by 1, 2 for key share of artifacts
