-- Why a node takes nothing new, by its agent's own word: its disk is full, or it is about to leave. Null: it takes work.
-- Apart from `state`, which an operator's drain changes: either may end before the other.

alter table nodes add column closed text check (closed in ('full', 'leaving'));
