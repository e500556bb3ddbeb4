-- What servers older than the audit log wrote since the first copy.
alter table audit_log disable trigger as_it_happens;
insert into audit_log (at, tenant, actor_kind, actor, action, object_kind, object_id)
select at, tenant, 'service', user_name, action, split_part(action, '.', 1), target from audit where not copied order by id;
alter table audit_log enable trigger as_it_happens;
drop table audit;
