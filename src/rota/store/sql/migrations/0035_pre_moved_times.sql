-- A start time that its owner moved; null: as the task was submitted. A blocked task obeys it when it is released.
alter table queue add column not_before timestamptz;
