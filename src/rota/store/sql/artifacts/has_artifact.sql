select 1 from artifacts where tenant = $1 and sha256 = $2
