-- The lock is held until the transaction ends: a take-over either waits for it, or came first, and no row comes back.
select 1 from leases where pool = $1 and epoch = $2 and holder = $3 for key share
