select graph_tasks.graph, graph_tasks.name, graph_tasks.item, graph_tasks.parent
from graph_tasks where task = $1 and tenant = $2
