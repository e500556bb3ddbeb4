"""Requests that write, each to a real object, and what their rows of the audit log say; and which leave none, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pyotp

from rota.api.permissions import RULES
from tests.api.accounts.people import People
from tests.api.accounts.test_every_route import ROUTES
from tests.api.sign_in.people import PASSWORD, SignIn
from tests.api.test_dead import die

# Why no row tells of them. Agents' requests are the data plane: attempts, output and stages are records of their own.
EXCEPTIONS = {
    "submit_task": "the task says who submitted it, by which server, when",
    "submit_batch": "as submit_task",
    "submit_graph": "as submit_task",
    "upload_artifact": "the artifact says who uploaded it, and when",
    "do_once": "the key says which claim holds it; it changes nothing else",
    "preview_tasks": "it writes nothing",
    "preview_schedule": "it writes nothing",
    "wait_for_tasks": "it writes nothing",
    "begin_second_factor": "it counts only when it is confirmed",
    "log_out": "asked in tests/api/accounts/test_logins.py: it ends the token that asks",
    "reload_node": "it writes nothing: a node is told, and the row says so afterwards",
    "do_once_for_task": "an agent's",
    "store_object": "an agent's",
    "record_stage": "an agent's",
}
WRITES = {name: (method, path) for method, path, name in ROUTES if method != "GET" and name in RULES}

WORK: dict[str, Any] = {"command": ["true"], "unplaceable": "wait"}
_DAILY = {"daily": "02:00"}


@dataclass
class Ask:
    """A request to a real object: what stands in the braces of the path, and the body; and what its row says."""

    path: dict[str, object] = field(default_factory=dict)
    body: object = None
    action: str = ""
    target: object = None
    tenant: bool = True  # the row is of the tenant, else of the cluster
    rows: tuple[str, ...] = ()  # the actions of all rows, if there are several
    query: dict[str, str] = field(default_factory=dict)
    user: str = ""  # who asks, with a session of theirs; empty: the administrator's token
    headers: dict[str, str] = field(default_factory=dict)


class Making:
    """Real objects of a tenant, made through the API."""

    def __init__(self, acme: People) -> None:
        self.acme = acme
        self.headers = {"rota-tenant": acme.tenant}

    def send(self, method: str, path: str, body: object = None) -> Any:
        made = self.acme.send(method, path, body, token=self.acme.admin, headers=self.headers)
        assert made.status_code in (200, 201, 204), made.text
        return made.json() if made.content else None

    def task(self, **more: Any) -> int:
        return int(self.send("POST", "/v1/tasks", {**WORK, **more})["id"])

    def held(self) -> int:
        task = self.task()
        self.send("POST", f"/v1/tasks/{task}/hold", {})
        return task

    def paused(self) -> int:
        task = self.task()
        self.send("POST", f"/v1/tasks/{task}/pause")
        return task

    def cancelled(self) -> int:
        task = self.task()
        self.send("POST", f"/v1/tasks/{task}/cancel")
        return task

    def dead(self) -> int:
        return die(self.acme.served, name(), token=self.acme.user("member"))

    def graph(self, *then: str) -> int:
        tasks = [{**WORK, "ref": "a"}, {**WORK, "ref": "b", "after": ["a"]}]
        graph = int(self.send("POST", "/v1/graphs", {"name": name(), "tasks": tasks})["id"])
        for verb in then:
            self.send("POST", f"/v1/graphs/{graph}/{verb}")
        return graph

    def schedule(self, *then: str) -> str:
        made = name()
        self.send("POST", "/v1/schedules", {"name": made, **_DAILY, "task": WORK})
        for verb in then:
            self.send("POST", f"/v1/schedules/{made}/{verb}")
        return made

    def webhook(self) -> int:
        return int(self.send("POST", "/v1/webhooks", {"url": "https://example.com/hook?token=x"})["id"])

    def user(self) -> str:
        return self.acme.add_user("member")

    def service(self, *then: object) -> str:
        made = name()
        self.send("POST", "/v1/service-accounts", {"name": made, "role": "member", "tenant": self.acme.tenant})
        return made

    def token(self) -> int:
        made = {"tenant": self.acme.tenant, "user": "old", "name": name()}
        return int(self.send("POST", "/v1/tokens", made)["id"])

    def node(self, state: str = "up") -> int:
        """Away for an hour."""
        [(number,)] = self.acme.served.ask(
            """insert into nodes (pool, name, boot, capacity, labels, capabilities, version, seen_at, left_at, state)
                select id, $1, 1, '{"cpu_milli": 1, "memory_bytes": 1, "disk_bytes": 1}', '{}', '{}', 'test',
                    now() - interval '1 hour', now() - interval '1 hour', $2 from pools where name = 'small' returning id""",
            name(),
            state,
        )
        return int(number)


def name() -> str:
    return f"a{uuid4().hex[:10]}"


def _of(verb: str, made: str, **body: Any) -> Callable[[Making], Ask]:
    def ask(making: Making) -> Ask:
        task = getattr(making, made)()
        return Ask({"task": task}, body or None, f"task.{verb}", task)

    return ask


def _edit(making: Making) -> Ask:
    task = making.task()
    version = making.send("GET", f"/v1/tasks/{task}")["version"]
    return Ask({"task": task}, {"priority": 3, "version": version, "reason": "why"}, "task.edit", task)


def _many(verb: str, made: str) -> Callable[[Making], Ask]:
    def ask(making: Making) -> Ask:
        return Ask({}, {"ids": [getattr(making, made)() for _ in range(2)], "reason": "both"}, f"task.{verb}", "")

    return ask


def _graph(verb: str, *then: str) -> Callable[[Making], Ask]:
    def ask(making: Making) -> Ask:
        graph = making.graph(*then)
        return Ask({"graph": graph}, None, f"graph.{verb}", graph)

    return ask


def _schedule(verb: str, *then: str, **body: Any) -> Callable[[Making], Ask]:
    def ask(making: Making) -> Ask:
        made = making.schedule(*then)
        return Ask({"name": made}, body or None, f"schedule.{verb}", made)

    return ask


def _new(action: str, body: dict[str, Any], *, tenant: bool = True, path: bool = False) -> Callable[[Making], Ask]:
    def ask(_: Making) -> Ask:
        made = name()
        named = {} if path else {"name": made}
        return Ask({"name": made} if path else {}, {**named, **body}, action, made, tenant)

    return ask


def _known(action: str, prepare: Callable[[Making, str], object], body: object = None, *, tenant: bool = False) -> Any:
    def ask(making: Making) -> Ask:
        made = name()
        prepare(making, made)
        return Ask({"name": made}, body, action, made, tenant)

    return ask


def _requeue(making: Making) -> Ask:
    dead = making.dead()
    return Ask({}, {"ids": [dead]}, "task.requeue", dead)


def _discard(making: Making) -> Ask:
    dead = making.dead()
    return Ask({}, {"ids": [dead]}, "task.discard", dead)


def _tier(making: Making, made: str) -> None:
    making.send("PUT", f"/v1/tiers/{made}", {"cpu": 1, "memory": "1G"})


def _remove_artifact(making: Making) -> Ask:
    sent = making.acme.send(
        "POST", f"/v1/artifacts?name={name()}", name().encode(), token=making.acme.admin, headers=making.headers
    )
    return Ask({"artifact": sent.json()["id"]}, None, "artifact.remove", sent.json()["id"])


def _operation(making: Making) -> Ask:
    own = name()
    for _ in range(3):
        making.task(name=own)
    return Ask({}, {"verb": "cancel", "where": {"name": own}, "changes": {"reason": "why"}}, "operation.cancel")


def _stop(making: Making) -> Ask:
    own = name()
    making.task(name=own)
    number = making.send("POST", "/v1/operations", {"verb": "hold", "where": {"name": own}})["id"]
    making.send("GET", f"/v1/operations/{number}?wait=20")
    making.acme.served.ask("update operations set state = 1, ended_at = null, before_id = 1 where id = $1", number)
    return Ask({"operation": number}, None, "operation.stop", number)


def _cool(making: Making) -> Ask:
    key = name()
    return Ask({"key": key}, {"seconds": 60}, "concurrency-key.cool", key)


def _redeliver(making: Making) -> Ask:
    webhook = making.webhook()
    [(delivery,)] = making.acme.served.ask(
        """insert into deliveries (webhook, tenant, message, type, body, state)
            select id, tenant, $2, 'done', '{}', 2 from webhooks where id = $1 returning id""",
        webhook,
        name(),
    )
    return Ask({"webhook": webhook, "delivery": delivery}, None, "webhook.redeliver", webhook)


def _resume_webhook(making: Making) -> Ask:
    webhook = making.webhook()
    return Ask({"webhook": webhook}, None, "webhook.resume", webhook)


def _remove_webhook(making: Making) -> Ask:
    webhook = making.webhook()
    return Ask({"webhook": webhook}, None, "webhook.remove", webhook)


def _node(verb: str, state: str = "up", body: object = None) -> Callable[[Making], Ask]:
    def ask(making: Making) -> Ask:
        return Ask({"node": making.node(state)}, body, f"node.{verb}", None, False)

    return ask


def _account(verb: str, kind: str, body: object = None) -> Callable[[Making], Ask]:
    def ask(making: Making) -> Ask:
        made = making.user() if kind == "user" else making.service()
        at = {"tenant": making.acme.tenant}
        if verb == "revoke":
            return Ask({"name": made}, None, f"{kind}.revoke", made, query={"role": "member", **at})
        asked = {"role": "viewer", **at} if verb == "grant" else body
        return Ask({"name": made}, asked, f"{kind}.{verb}", made)

    return ask


def _added(kind: str) -> Callable[[Making], Ask]:
    def ask(making: Making) -> Ask:
        made = name()
        body = {"name": made, "role": "member", "tenant": making.acme.tenant}
        return Ask({}, body, f"{kind}.add", made, rows=(f"{kind}.add", f"{kind}.grant"))

    return ask


def _token(verb: str) -> Callable[[Making], Ask]:
    def ask(making: Making) -> Ask:
        if verb == "add":
            return Ask({}, {"tenant": making.acme.tenant, "user": "new", "name": name()}, "token.add")
        return Ask({"token": making.token()}, None, f"token.{verb}")

    return ask


def _tenant(making: Making) -> str:
    return str(making.send("POST", "/v1/tenants", {"name": name(), "plan": "unlimited"})["name"])


def _of_tenant(verb: str, body: object = None) -> Callable[[Making], Ask]:
    def ask(making: Making) -> Ask:
        made = _tenant(making)
        return Ask({"name": made}, body, f"tenant.{verb}", made)

    return ask


def _pool(making: Making, made: str) -> None:
    making.send("POST", "/v1/pools", {"name": made})


def _lane(making: Making, made: str) -> None:
    making.send("POST", "/v1/lanes", {"name": made, "level": 7})


def _category(making: Making, made: str) -> None:
    making.send("PUT", f"/v1/categories/{made}", {"cap": "1h"})


def _retention(making: Making) -> Ask:
    [(days,)] = making.acme.served.ask("select deliveries_days from retention")
    return Ask({}, {"deliveries_days": (days or 30) + 1}, "retention.change", "deliveries_days", False)


def _plan(making: Making) -> Ask:
    [(weight,)] = making.acme.served.ask("select weight from plans where name = 'unlimited'")
    return Ask({"name": "unlimited"}, {"weight": weight + 1}, "plan.set", "unlimited", False)


def _secret(making: Making) -> Ask:
    own = f"S_{uuid4().hex[:8].upper()}"
    making.send("PUT", f"/v1/secrets/{own}", {"value": "hidden-value"})
    return Ask({"name": own}, None, "secret.remove", own)


def _by_session(ask: Callable[[Making, SignIn, str], Ask], *, second_factor: bool = False) -> Callable[[Making], Ask]:
    """A user with a password, and perhaps a second factor, asks in a browser."""

    def made(making: Making) -> Ask:
        people = SignIn(making.acme)
        user = people.user()
        if second_factor:
            people.with_second_factor(people.signed_in(user))
        asked = ask(making, people, user)
        return replace(asked, user=user, headers=making.acme.session_of(user))

    return made


def _confirmed(making: Making, people: SignIn, user: str) -> Ask:
    begun = making.acme.send("POST", "/v1/second-factor", token=None, headers=making.acme.session_of(user)).json()
    code = pyotp.TOTP(begun["secret"]).now()
    return Ask(body={"code": code}, action="second-factor.add", target=user)


def _switched(making: Making, people: SignIn, user: str) -> Ask:
    other = _tenant(making)
    making.acme.give(user, "member", tenant=other)
    return Ask(body={"tenant": other}, action="session.switch")


def _session(making: Making) -> Ask:
    user = making.user()
    making.acme.session_of(user)
    [(number,)] = making.acme.served.ask(
        "select sessions.id from sessions join principals on principals.id = principal where principals.name = $1", user
    )
    return Ask({"session": number}, action="session.end", target=number)


def _worker_key(making: Making) -> Ask:
    made = making.send("POST", "/v1/worker-keys", {"pool": "small"})["id"]
    return Ask({"key": made}, action="worker-key.revoke", target=made, tenant=False)


def _node_key(making: Making) -> Ask:
    made = name()
    making.acme.served.ask(
        """insert into node_keys (pool, name, public_key)
            select id, $1, sha256(convert_to($1, 'UTF8')) from pools where name = 'small' returning id""",
        made,
    )
    return Ask({"node": made}, action="node.forget-key", target=f"small/{made}", tenant=False)


def _reset_factor(making: Making) -> Ask:
    people = SignIn(making.acme)
    user = people.user()
    people.with_second_factor(people.signed_in(user))
    return Ask({"name": user}, action="second-factor.reset", target=user)


def _of_user(action: str, **more: Any) -> Callable[[Making], Ask]:
    def ask(making: Making) -> Ask:
        user = making.user()
        return Ask({"name": user}, action=action, target=user, **more)

    return ask


def _all_sessions(making: Making) -> Ask:
    user = making.user()
    making.acme.session_of(user)
    return Ask(action="session.end-all", target=user, query={"user": user})


ASKS: dict[str, Callable[[Making], Ask]] = {
    "cancel_task": _of("cancel", "task", reason="why"),
    "hold_task": _of("hold", "task", reason="why"),
    "release_task": _of("release", "held", reason="why"),
    "pause_task": _of("pause", "task", reason="why"),
    "resume_task": _of("resume", "paused", reason="why"),
    "retry_task": _of("retry", "cancelled", reason="why"),
    "edit_task": _edit,
    "extend_task": _of("extend", "task", cap="2h", reason="why"),
    "cancel_tasks": _many("cancel", "task"),
    "hold_tasks": _many("hold", "task"),
    "release_tasks": _many("release", "held"),
    "requeue_dead_letters": _requeue,
    "discard_dead_letters": _discard,
    "cancel_graph": _graph("cancel"),
    "hold_graph": _graph("hold"),
    "release_graph": _graph("release", "hold"),
    "retry_graph": _graph("retry", "cancel"),
    "rerun_graph": _graph("rerun", "cancel"),
    "start_operation": _operation,
    "stop_operation": _stop,
    "cool_concurrency_key": _cool,
    "remove_artifact": _remove_artifact,
    "add_schedule": _new("schedule.add", {**_DAILY, "task": WORK}),
    "apply_schedule": _new("schedule.apply", {**_DAILY, "task": WORK}, path=True),
    "edit_schedule": _schedule("edit", jitter="1m", version=1),
    "remove_schedule": _schedule("remove"),
    "pause_schedule": _schedule("pause"),
    "resume_schedule": _schedule("resume", "pause"),
    "skip_next_run": _schedule("skip-next"),
    "run_schedule": _schedule("run"),
    "backfill_schedule": _schedule("backfill", **{"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z"}),
    "set_secret": lambda _: Ask({"name": (own := f"S_{uuid4().hex[:8].upper()}")}, {"value": "v"}, "secret.set", own),
    "remove_secret": _secret,
    "rotate_master_key": lambda _: Ask({}, None, "secret.rotate"),
    "add_webhook": lambda _: Ask({}, {"url": "https://example.com/hook?token=x"}, "webhook.add"),
    "remove_webhook": _remove_webhook,
    "resume_webhook": _resume_webhook,
    "redeliver": _redeliver,
    "drain_node": _node("drain"),
    "undrain_node": _node("undrain", "draining"),
    "remove_node": _node("remove"),
    "add_pool": _new("pool.add", {}, tenant=False),
    "change_pool": _known("pool.set", _pool, {"elastic": True}),
    "pause_pool": _known("pool.pause", _pool),
    "resume_pool": _known("pool.resume", _pool),
    "set_tier": _new("tier.set", {"cpu": 1, "memory": "1G"}, tenant=False, path=True),
    "remove_tier": _known("tier.remove", _tier),
    "set_category": _new("category.set", {"cap": "1h"}, tenant=False, path=True),
    "remove_category": _known("category.remove", _category),
    "add_lane": _new("lane.add", {"level": 7}, tenant=False),
    "change_lane": _known("lane.set", _lane, {"level": 8}),
    "change_retention": _retention,
    "change_plan": _plan,
    "add_tenant": _new("tenant.add", {"plan": "unlimited"}),
    "change_tenant": _of_tenant("set", {"trusted": True}),
    "pause_tenant": _of_tenant("pause"),
    "resume_tenant": _of_tenant("resume"),
    "change_settings": _of_tenant("set", {"support": True}),
    "add_token": _token("add"),
    "rotate_token": _token("rotate"),
    "revoke_token": _token("revoke"),
    "add_user": _added("user"),
    "change_user": _account("disable", "user", {"disabled": True}),
    "remove_user": _account("remove", "user"),
    "grant_user_role": _account("grant", "user"),
    "revoke_user_role": _account("revoke", "user"),
    "add_service_account": _added("service-account"),
    "change_service_account": _account("disable", "service-account", {"disabled": True}),
    "remove_service_account": _account("remove", "service-account"),
    "grant_service_account_role": _account("grant", "service-account"),
    "revoke_service_account_role": _account("revoke", "service-account"),
    # ---- signing in
    "invite_user": _of_user("user.invite"),
    "reset_second_factor": _reset_factor,
    "set_sign_in_rules": lambda _: Ask(body={"second_factor_roles": []}, action="sign-in-rules.set", tenant=False),
    "end_session": _session,
    "end_other_sessions": _all_sessions,
    "sign_out": _by_session(lambda *_: Ask(action="session.end")),
    "switch_session": _by_session(_switched),
    "prove_session": _by_session(lambda *_: Ask(body={"password": PASSWORD}, action="session.prove")),
    "set_password": _by_session(
        lambda _, __, user: Ask(
            body={"old": PASSWORD, "new": f"{PASSWORD} anew"}, action="user.set-password", target=user
        )
    ),
    "confirm_second_factor": _by_session(_confirmed),
    "remove_second_factor": _by_session(
        lambda _, __, user: Ask(action="second-factor.remove", target=user), second_factor=True
    ),
    "renew_recovery_codes": _by_session(
        lambda _, __, user: Ask(action="second-factor.renew-recovery-codes", target=user), second_factor=True
    ),
    # ---- nodes
    "add_worker_key": lambda _: Ask(body={"pool": "small"}, action="worker-key.add", tenant=False),
    "revoke_worker_key": _worker_key,
    "forget_node_key": _node_key,
}
