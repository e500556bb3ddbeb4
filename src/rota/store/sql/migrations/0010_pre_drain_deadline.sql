-- Until when what runs on a draining node may go on; null: as long as it takes. Means nothing unless it is draining.

alter table nodes add column drain_by timestamptz;
