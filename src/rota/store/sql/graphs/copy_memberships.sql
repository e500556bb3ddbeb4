-- New runs of members take their places: the same graph, name and submitting task.
insert into graph_tasks (graph, task, tenant, name, place, item, parent)
select member.graph, pair.new, member.tenant, member.name, member.place, member.item, member.parent
from unnest($1::bigint[], $2::bigint[]) as pair (old, new) join graph_tasks member on member.task = pair.old
