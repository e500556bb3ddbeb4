-- Every start asks which nodes of its pool are drained: hardly ever one, among however many there are.

create index nodes_draining on nodes (pool) where state = 'draining';
