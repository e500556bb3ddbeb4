-- A token, ended or not, with its owner: who has its secret is told from the hash.
select tokens.id, tokens.tenant, tokens.name, tokens.secret_hash, coalesce(principals.name, tokens.user_name) as actor,
    case when principals.kind = 'user' then 'user' else 'service' end as kind
from tokens left join principals on principals.id = tokens.owner
where tokens.public_id = $1
