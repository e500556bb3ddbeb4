select tenant, sha256 from artifacts where kept_until < now()
order by kept_until limit $1 for update skip locked
