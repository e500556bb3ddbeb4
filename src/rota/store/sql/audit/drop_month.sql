select drop_audit_month($1::date)
