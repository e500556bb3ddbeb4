"""The HTTP node: routes over the stages, composed in `node`. No SQL and no decisions here."""
