"""What each route needs of its caller: the one table that routes, OpenAPI, docs/accounts.md and the tests read.

A route that is missing here fails at the start of the process. `authorise` in `services.py` looks its route up by the
name of its function, so that a route cannot ask for another scope than the table says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.routing import BaseRoute

from rota.model.accounts.permissions import Scope


@dataclass(frozen=True, slots=True)
class Rule:
    """`scope` None: whoever is signed in, about themselves."""

    scope: Scope | None
    by_tasks: bool = False  # the key of a running task will do: the route keeps it to the task's graph
    by_restricted: bool = False  # a token for some tasks only will do: the route keeps it to what it is for
    by_session: bool = False  # only a user who signed in will do: how somebody signs in is not for tokens


SELF = Rule(None)
# Answered to anybody, or protected in another way: server nodes sign what they ask each other, nodes what proves them.
OPEN = frozenset(
    {
        "get_health",
        "get_readiness",
        "get_manifest_schema",
        "get_login",
        "start_device_login",
        "take_login_token",
        "make_challenge",
        "join_node",
        "make_node_token",
        "receive_hint",
        "read_loads",
        "read_running",
        "tell_load",
        "tell_why",
        "reload",
        "recall",
        # Whoever is not signed in yet; limits are in `admit/sign_in_limits.py`.
        "sign_in",
        "begin_enrolment_with_ticket",
        "confirm_sign_in",
    }
)


def _rules(scope: Scope, *names: str, by_tasks: bool = False, by_restricted: bool = False) -> dict[str, Rule]:
    return dict.fromkeys(names, Rule(scope, by_tasks, by_restricted))


RULES: dict[str, Rule] = {
    # ---- tasks
    **_rules(Scope.TASKS_SUBMIT, "submit_task", "submit_batch", "submit_graph", by_tasks=True, by_restricted=True),
    **_rules(Scope.TASKS_SUBMIT, "do_once", by_tasks=True),
    **_rules(Scope.TASKS_SUBMIT, "preview_tasks", "rerun_graph"),
    **_rules(Scope.TASKS_READ, "get_task", "list_attempts", "wait_for_tasks", by_tasks=True, by_restricted=True),
    **_rules(Scope.TASKS_READ, "get_graph", by_tasks=True),
    **_rules(
        Scope.TASKS_READ,
        "list_tasks",
        "explain_task",
        "list_graphs",
        "list_operations",
        "get_operation",
        "list_dead_letters",
        "get_dead_letter",
        "list_concurrency_keys",
    ),
    **_rules(Scope.TASKS_CONTROL, "cancel_task", "cancel_tasks", by_tasks=True, by_restricted=True),
    **_rules(Scope.TASKS_CONTROL, "cancel_graph", by_tasks=True),
    **_rules(
        Scope.TASKS_CONTROL,
        "retry_task",
        "pause_task",
        "resume_task",
        "hold_task",
        "release_task",
        "hold_tasks",
        "release_tasks",
        "edit_task",
        "extend_task",
        "start_operation",
        "stop_operation",
        "requeue_dead_letters",
        "discard_dead_letters",
        "hold_graph",
        "release_graph",
        "retry_graph",
        "cool_concurrency_key",
    ),
    **_rules(Scope.LOGS_READ, "get_log", by_tasks=True, by_restricted=True),
    **_rules(Scope.RESULTS_READ, "list_results", by_tasks=True, by_restricted=True),
    # ---- what belongs to a tenant
    **_rules(Scope.ARTIFACTS_READ, "list_artifacts", "get_artifact", "download_artifact"),
    **_rules(Scope.ARTIFACTS_WRITE, "upload_artifact", "remove_artifact"),
    **_rules(Scope.SCHEDULES_READ, "list_schedules", "get_schedule", "list_next_runs", "list_occurrences"),
    **_rules(
        Scope.SCHEDULES_WRITE,
        "add_schedule",
        "edit_schedule",
        "remove_schedule",
        "pause_schedule",
        "resume_schedule",
        "skip_next_run",
        "run_schedule",
        "backfill_schedule",
        "apply_schedule",
        "preview_schedule",
    ),
    **_rules(Scope.SECRETS_READ, "list_secrets"),
    **_rules(Scope.SECRETS_WRITE, "set_secret", "remove_secret"),
    **_rules(Scope.EVENTS_READ, "follow_events"),
    **_rules(Scope.WEBHOOKS_READ, "list_webhooks", "list_deliveries"),
    **_rules(Scope.WEBHOOKS_WRITE, "add_webhook", "remove_webhook", "resume_webhook", "redeliver"),
    **_rules(Scope.USAGE_READ, "get_me", "list_plans", "get_plan", "get_retention"),
    # ---- the cluster
    **_rules(
        Scope.NODES_READ,
        "list_nodes",
        "get_node",
        "list_servers",
        "list_pools",
        "get_pool",
        "get_pool_load",
        "list_tiers",
        "list_categories",
        "list_lanes",
    ),
    **_rules(Scope.NODES_WRITE, "drain_node", "undrain_node", "reload_node", "remove_node", "forget_node_key"),
    **_rules(Scope.NODES_WRITE, "add_worker_key", "list_worker_keys", "revoke_worker_key"),
    **_rules(Scope.POOLS_WRITE, "pause_pool", "resume_pool"),
    **_rules(Scope.METRICS_READ, "check_database", "get_metrics"),
    **_rules(
        Scope.ADMIN,
        "rotate_master_key",
        "add_pool",
        "change_pool",
        "set_tier",
        "remove_tier",
        "set_category",
        "remove_category",
        "add_lane",
        "change_lane",
        "change_retention",
        "add_tenant",
        "change_tenant",
        "pause_tenant",
        "resume_tenant",
        "list_tenants",
        "change_plan",
    ),
    **_rules(Scope.AUDIT_READ, "list_audit", "get_audit_entry", "verify_audit", "export_audit"),
    # ---- accounts
    "get_whoami": Rule(None, by_tasks=True, by_restricted=True),
    "log_out": Rule(None, by_restricted=True),
    **_rules(Scope.TOKENS_WRITE, "add_token", "rotate_token", by_restricted=True),
    **_rules(Scope.TOKENS_WRITE, "list_tokens", "get_token", "revoke_token"),
    **_rules(Scope.USERS_READ, "list_users", "get_user", "list_service_accounts", "get_service_account"),
    **_rules(
        Scope.USERS_WRITE,
        "add_user",
        "change_user",
        "remove_user",
        "grant_user_role",
        "revoke_user_role",
        "add_service_account",
        "change_service_account",
        "remove_service_account",
        "grant_service_account_role",
        "revoke_service_account_role",
        "change_settings",
    ),
    # ---- signing in
    **dict.fromkeys(("list_sessions", "end_session", "end_other_sessions", "get_sign_in_rules"), SELF),
    **dict.fromkeys(
        (
            "sign_out",
            "prove_session",
            "switch_session",
            "set_password",
            "get_second_factor",
            "begin_second_factor",
            "confirm_second_factor",
            "remove_second_factor",
            "renew_recovery_codes",
        ),
        Rule(None, by_session=True),
    ),
    **_rules(Scope.USERS_WRITE, "invite_user", "reset_second_factor"),
    **_rules(Scope.ADMIN, "set_sign_in_rules"),
    # ---- agents
    **_rules(
        Scope.WORK,
        "find_leader",
        "control",
        "logs",
        "do_once_for_task",
        "download_task_artifact",
        "store_object",
        "list_objects",
        "download_object",
        "record_stage",
    ),
}
# What the key of a running task is good for, in its own graph.
OF_TASKS = frozenset(rule.scope for rule in RULES.values() if rule.by_tasks and rule.scope is not None)


# Pages for browsers (`ui/`). Those with a rule send whoever is not signed in to the page for that.
PAGE_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "show_start",
            "leave",
            "look_at_tenant",
            "show_prove",
            "prove_again",
            "show_account",
            "change_own_password",
            "show_enrolment",
            "confirm_enrolment",
            "remove_own_factor",
            "renew_own_codes",
            "end_own_session",
            "end_all_other_sessions",
            # programs that a user allows to act as them
            "show_login",
            "decide_login",
            "show_code_entry",
            "decide_code",
        ),
        Rule(None, by_session=True),
    ),
}
OPEN_PAGES = frozenset(
    {
        "send_static",
        "show_sign_in",
        "send_sign_in",
        "send_code",
        "show_setup",
        "send_setup",
        "show_invitation",
        "send_invitation",
        "start_oidc",
        "finish_oidc",
        "show_signed_out",
    }
)

SIGNED_IN = "signed-in"
ANYBODY = "anybody"


def permission_of(name: str) -> str:
    """What the route with this function asks for, as a word: a scope, `signed-in` or `anybody`."""
    rule = RULES.get(name)
    if rule is None:
        return ANYBODY
    return SIGNED_IN if rule.scope is None else rule.scope.value


def rule_of(name: str) -> Rule:
    """Of a route or page that is not open to anybody."""
    return RULES.get(name) or PAGE_RULES[name]


def check_complete(routes: Iterable[BaseRoute]) -> None:
    """Every route is in the table, and the table has no other; a mistake ends the start of the process."""
    _check(routes, RULES.keys() | OPEN)


def check_pages(routes: Iterable[BaseRoute]) -> None:
    """As `check_complete`, for the routes of pages."""
    _check(routes, PAGE_RULES.keys() | OPEN_PAGES)


def _check(routes: Iterable[BaseRoute], known: Collection[str]) -> None:
    names = {route.endpoint.__name__ for route in routes if isinstance(route, APIRoute | APIWebSocketRoute)}
    known = set(known)
    if names != known:
        missing, unknown = sorted(names - known), sorted(known - names)
        raise LookupError(f"api/permissions.py: no rule for {missing}; no route for {unknown}")
