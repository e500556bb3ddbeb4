select tenant, charged, saved_at from shares where pool = $1
