-- One exchange of a code at a time.
select {login_columns} from cli_logins where code_hash = $1 and kind = $2 for update
