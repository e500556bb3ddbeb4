update sign_in_rules set second_factor_roles = $1
