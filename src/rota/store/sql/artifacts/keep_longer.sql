update artifacts set kept_until = now() + $3 where tenant = $1 and sha256 = $2
