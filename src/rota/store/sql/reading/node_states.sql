select nodes.id, {nodes/node_state} as state from nodes where nodes.id = any($2)
