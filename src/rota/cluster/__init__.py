"""Who is alive and who leads: membership of server nodes, leases with epochs, hints from node to node."""
