insert into audit_seals (number, day, at, version, after_xid, after_id, to_xid, to_id, least_id, most_id, ids, earlier, earlier_months, digests,
    previous, hash)
values ($1, $2, $3, $4, $5::xid8, $6, $7::xid8, $8, $9, $10, $11, $12, $13, $14, $15, $16)
