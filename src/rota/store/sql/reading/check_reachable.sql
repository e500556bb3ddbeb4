select 1 from cluster
