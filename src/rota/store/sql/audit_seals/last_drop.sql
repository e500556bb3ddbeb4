-- What the last drop of a month says of the seals that went before.
select object_id as month, (before->>'seal')::bigint as number, before->>'hash' as hash from audit_log
where object_kind = 'audit' and action = 'audit.drop' and actor_kind = 'system' and outcome = 'done'
order by at desc, id desc limit 1
