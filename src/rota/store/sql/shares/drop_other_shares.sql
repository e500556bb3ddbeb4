delete from shares where pool = $1 and tenant <> all($2)
