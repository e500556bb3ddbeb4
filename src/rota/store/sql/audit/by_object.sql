object_kind = $7 and object_id = $8
