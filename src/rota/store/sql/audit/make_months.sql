select make_audit_month($1::date)
