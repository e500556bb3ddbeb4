select sha256 from artifacts where tenant = $1 and sha256 = any($2) order by sha256 for key share
