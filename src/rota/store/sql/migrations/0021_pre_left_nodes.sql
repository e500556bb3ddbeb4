-- When a node's agent said goodbye. It counts until the node is heard of again, whoever leads: `seen_at` is later then.

alter table nodes add column left_at timestamptz;
