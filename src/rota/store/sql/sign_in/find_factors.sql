-- What a user signs in with, and whether one of its roles asks for a second factor.
select passwords.hash as password, second_factors.confirmed_at is not null as second_factor,
    exists (select from bindings, sign_in_rules
        where bindings.principal = $1 and bindings.role = any(sign_in_rules.second_factor_roles)) as needs_second
from (select) as _
left join passwords on passwords.principal = $1
left join second_factors on second_factors.principal = $1
