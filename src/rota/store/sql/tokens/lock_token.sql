-- One rotation of a token at a time.
select id from tokens where id = $1 for update
