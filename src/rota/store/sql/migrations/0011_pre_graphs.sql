-- Graphs: tasks submitted together under one name, and what their members run after. A graph's number comes from the
-- same sequence as its tasks', so that an id names one thing. Membership is written once and never changed; a member that
-- was run again (`reruns`) is succeeded by its new run.

create table graphs (
    id bigint primary key,
    tenant integer not null,
    name text not null,
    user_name text not null,
    is_array boolean not null default false,
    rerun_of bigint, -- the graph that this one repeats
    created_at timestamptz not null default now()
);
create index graphs_of_tenant on graphs (tenant, id);

create table graph_tasks (
    graph bigint not null,
    task bigint not null,
    tenant integer not null,
    name text not null, -- inside the graph
    place integer not null, -- in topological order
    item integer, -- of an array: its index
    parent bigint, -- the running task that submitted it
    primary key (graph, task)
);
create unique index graph_tasks_of_task on graph_tasks (task);

-- What a task wants of each of `after_tasks`; null: of all of them what `upstream` says.
alter table tasks add column after_rules smallint[];

-- Which ends of an attempt are worth another: see `rota.model.request.retry_rules`. Null: all that can be.
alter table tasks add column retry_rules json;

do $$
declare name text;
begin
    foreach name in array array['graphs', 'graph_tasks'] loop
        execute format('alter table %I enable row level security', name);
        execute format('create policy own on %I to rota_tenant using (tenant = current_tenant())', name);
    end loop;
end $$;
grant select on graphs, graph_tasks to rota_tenant;
