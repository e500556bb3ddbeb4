-- A task that may submit others begins a graph of its own, unless it is in one. Graphs and arrays that a running task submits
-- with its key are graphs of their own within that of the task, however deep.

alter table graphs add column from_task boolean not null default false; -- it began as one task that may submit
alter table graphs add column within bigint; -- the outermost graph that it belongs to
alter table graphs add column joined integer not null default 0; -- tasks that running tasks have submitted into it
create index graphs_within on graphs (within) where within is not null;
