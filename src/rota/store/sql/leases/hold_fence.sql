-- Held until the transaction ends: a take-over waits for it, or has come before it and nothing comes back.
select 1 from leases where pool = $1 and epoch = $2 and holder = $3 for key share
