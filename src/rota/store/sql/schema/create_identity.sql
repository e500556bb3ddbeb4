insert into cluster (secret) values ($1) on conflict do nothing
