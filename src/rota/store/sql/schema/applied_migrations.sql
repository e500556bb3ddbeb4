select number from schema_migrations
