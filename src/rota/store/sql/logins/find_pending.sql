select {login_columns} from cli_logins
where user_code_hash = $1 and decided_at is null and expires_at > now()
