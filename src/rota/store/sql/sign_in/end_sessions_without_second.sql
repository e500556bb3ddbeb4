-- Of users whose roles ask for a second factor that they do not have yet. Providers ask for theirs, so those stay.
update sessions set ended_at = now()
where ended_at is null and via <> 'oidc'
    and exists (select from bindings, sign_in_rules where bindings.principal = sessions.principal
        and bindings.role = any(sign_in_rules.second_factor_roles))
    and not exists (select from second_factors
        where second_factors.principal = sessions.principal and second_factors.confirmed_at is not null)
returning id
