-- From which id on rows count transactions anew, after those of a seal.
select min(least_id) from audit_seals where least_id > $1
