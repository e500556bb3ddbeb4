-- A schedule starts a task or a whole graph, and keeps the artifacts that its tasks name.

alter table schedules
    add column last_graph bigint, -- of the latest run, if that was a graph
    add column artifacts bytea[]; -- digests; null: none
create index schedules_of_artifact on schedules using gin (artifacts) where artifacts is not null;

alter table occurrences add column graph bigint; -- the run, if it is one

-- What made the graph.
alter table graphs add column schedule bigint, add column scheduled_for timestamptz;
