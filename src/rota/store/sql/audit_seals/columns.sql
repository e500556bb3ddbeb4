number, day, at, version, after_xid, after_id, to_xid, to_id, least_id, most_id, ids, earlier, earlier_months,
    digests, previous, hash
