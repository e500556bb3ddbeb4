update pools set paused = $2 where name = $1 returning {pool_columns}
