select steps.principal, steps.account, steps.enrol from sign_in_steps as steps
join principals on principals.id = steps.principal
where steps.hash = $1 and steps.ends_at > now() and principals.disabled_at is null
