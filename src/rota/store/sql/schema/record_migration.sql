insert into schema_migrations (number, name) values ($1, $2)
