insert into lanes (rank, name, level, gated, promotes) values ($1, $2, $3, $4, $5)
on conflict do nothing returning rank
