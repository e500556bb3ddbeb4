"""The instants of a rule, by hand and against the oracle, in every zone there is."""

from __future__ import annotations

import calendar
import itertools
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.errors import FaultList
from rota.model.schedule.checks import given_instant
from rota.model.schedule.rules import parse_rule, zone_of, zones
from rota.model.schedule.schedule import Rule, RuleKind
from rota.timetable.occurrences import instants, latest, next_after, previous

from .oracle import change_of_clocks, round_the_clock, times_of_day

ALL_ZONES = sorted(zones())


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def rule(kind: str, text: str, zone: str = "UTC", anchor: datetime | None = None) -> Rule:
    faults = FaultList()
    made = parse_rule(kind, text, zone=zone, anchor=anchor, now=at("2024-01-01T00:00Z"), faults=faults)
    assert made is not None, faults.faults
    return made


def some(made: Rule, after: str, amount: int) -> list[str]:
    return [one.isoformat().replace("+00:00", "Z") for one in islice(instants(made, at(after)), amount)]


def test_each_kind_of_rule_has_the_instants_its_words_say() -> None:
    after = "2024-02-27T12:34:56.5Z"
    assert some(rule("at", "2024-03-01T00:00Z"), after, 2) == ["2024-03-01T00:00:00Z"]
    assert some(rule("at", "2024-03-01T00:00", "Europe/Berlin"), after, 2) == ["2024-02-29T23:00:00Z"]
    assert some(rule("hourly", "15"), after, 2) == ["2024-02-27T13:15:00Z", "2024-02-27T14:15:00Z"]
    assert some(rule("daily", "02:30", "Europe/Berlin"), after, 1) == ["2024-02-28T01:30:00Z"]
    assert some(rule("weekly", "mon,Thu@08:00"), after, 2) == ["2024-02-29T08:00:00Z", "2024-03-04T08:00:00Z"]
    assert some(rule("monthly", "31@00:00"), after, 3) == [
        f"2024-{day}T00:00:00Z" for day in ("02-29", "03-31", "04-30")
    ]
    assert some(rule("annually", "02-29@00:00"), after, 2) == ["2024-02-29T00:00:00Z", "2025-02-28T00:00:00Z"]
    assert some(rule("cron", "*/30 9-10 * * 1-5"), after, 2) == ["2024-02-28T09:00:00Z", "2024-02-28T09:30:00Z"]
    assert some(rule("cron", "@weekly"), after, 1) == ["2024-03-03T00:00:00Z"]
    anchored = rule("every", "PT3H", anchor=at("2024-01-01T01:00Z"))
    assert some(anchored, after, 2) == ["2024-02-27T13:00:00Z", "2024-02-27T16:00:00Z"]


def test_a_time_inside_the_gap_comes_right_after_it_and_a_repeated_one_once() -> None:
    berlin = rule("daily", "02:30", "Europe/Berlin")
    assert some(berlin, "2024-03-30T12:00Z", 2) == ["2024-03-31T01:00:00Z", "2024-04-01T00:30:00Z"]
    assert some(berlin, "2024-10-26T12:00Z", 2) == ["2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"]
    assert some(berlin, "2024-10-27T01:00Z", 1) == ["2024-10-28T01:30:00Z"]  # asked for on the second pass
    island = rule("daily", "02:15", "Australia/Lord_Howe")
    assert some(island, "2024-10-05T12:00Z", 2) == ["2024-10-05T15:30:00Z", "2024-10-06T15:15:00Z"]
    dublin = rule("daily", "01:30", "Europe/Dublin")  # where summer is standard time
    assert some(dublin, "2024-03-30T12:00Z", 2) == ["2024-03-31T01:00:00Z", "2024-04-01T00:30:00Z"]
    samoa = rule("daily", "12:00", "Pacific/Apia")  # the 30th of December 2011 did not take place
    assert some(samoa, "2011-12-29T00:00Z", 3) == [
        "2011-12-29T22:00:00Z",
        "2011-12-30T10:00:00Z",
        "2011-12-30T22:00:00Z",
    ]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("at", "{date}T02:30"),
        ("daily", "02:30"),
        ("weekly", "sun@02:30"),
        ("monthly", "{day}@02:30"),
        ("annually", "{month}-{day}@02:30"),
        ("cron", "30 2 * * *"),
        ("cron", "30 2 {day} {month} *"),
    ],
)
@pytest.mark.parametrize(
    ("date", "instant"), [("2024-03-31", "2024-03-31T01:00:00Z"), ("2024-10-27", "2024-10-27T00:30:00Z")]
)
def test_every_rule_with_a_time_of_day_treats_a_skipped_and_a_repeated_hour_alike(
    kind: str, text: str, date: str, instant: str
) -> None:
    _, month, day = date.split("-")
    made = rule(kind, text.format(date=date, month=month, day=day), "Europe/Berlin")
    midnight = at(f"{date}T00:00:00Z") - timedelta(hours=3)
    found = [one.isoformat().replace("+00:00", "Z") for one in _until(made, midnight, midnight + timedelta(hours=20))]
    assert found == [instant]


@pytest.mark.parametrize("field", ["ends_at", "anchor", "next_at", "from"])
def test_a_local_time_beside_the_rule_follows_the_same_rule(field: str) -> None:
    faults = FaultList()
    for local, instant in (("2024-03-31T02:30", "2024-03-31T01:00Z"), ("2024-10-27T02:30", "2024-10-27T00:30Z")):
        assert given_instant(field, local, "Europe/Berlin", faults) == at(instant)
    assert not faults.faults


def test_what_goes_round_the_clock_keeps_going_on_both_passes() -> None:
    quarters = rule("cron", "*/30 * * * *", "Europe/Berlin")
    assert some(quarters, "2024-10-27T00:10Z", 5) == [
        f"2024-10-27T{clock}:00Z" for clock in ("00:30", "01:00", "01:30", "02:00", "02:30")
    ]
    assert some(rule("hourly", "0", "Europe/Berlin"), "2024-03-31T00:00Z", 2) == [
        "2024-03-31T01:00:00Z",
        "2024-03-31T02:00:00Z",
    ]


def test_far_years_and_leap_days() -> None:
    leap = rule("cron", "0 0 29 2 *", "America/New_York")
    assert some(leap, "2096-01-01T00:00Z", 2) == ["2096-02-29T05:00:00Z", "2104-02-29T05:00:00Z"]
    assert some(rule("daily", "02:30", "Europe/Berlin"), "2999-03-30T12:00Z", 1) == ["2999-03-31T01:00:00Z"]
    assert next_after(rule("hourly", "0"), at("8999-12-31T23:30Z")) is None
    assert next_after(rule("annually", "12-31@23:00"), at("8999-12-31T22:30Z")) is None
    assert next_after(rule("at", "2024-01-01T00:00Z"), at("2024-01-01T00:00Z")) is None


def test_the_instants_before_are_found_too() -> None:
    nightly = rule("daily", "02:30", "Europe/Berlin")
    assert previous(nightly, at("2024-04-01T00:30Z")) == at("2024-03-31T01:00Z")
    assert previous(rule("cron", "0 0 29 2 *"), at("2024-02-29T00:00Z")) == at("2020-02-29T00:00Z")
    assert previous(rule("at", "2024-01-01T00:00Z"), at("2024-01-01T00:00Z")) is None
    seconds = rule("every", "1s", anchor=at("2024-01-01T00:00Z"))
    found = latest(seconds, at("2024-06-01T00:00:00.5Z"), 3, since=at("2024-01-01T00:00Z"))
    assert found == [at(f"2024-05-31T23:59:{second}Z") for second in (58, 59)] + [at("2024-06-01T00:00Z")]
    assert latest(nightly, at("2024-04-01T00:00Z"), 5, since=at("2024-03-31T01:00Z")) == [at("2024-03-31T01:00Z")]


@pytest.mark.parametrize("part", range(4))
def test_every_zone_agrees_with_the_oracle_around_a_change_of_its_clocks(part: int) -> None:
    """Invariant: the walk yields exactly the instants that a look at every minute yields (I17)."""
    for number, name in enumerate(ALL_ZONES[part::4]):
        zone = zone_of(name)
        change = change_of_clocks(zone, at("2023-01-10T00:00Z"), at("2024-01-10T00:00Z")) or at("2023-03-26T01:00Z")
        shown = (change - timedelta(minutes=1)).astimezone(zone)
        clock = (
            shown.hour * 60 + shown.minute + 1 + (7 * number) % 60
        ) % 1440  # inside the gap or the fold, if it can be
        hour, minute = divmod(clock, 60)
        start, end = change - timedelta(hours=4), change + timedelta(hours=5)
        daily = times_of_day(lambda local, c=clock: local.hour * 60 + local.minute == c, zone, start, end)
        made = Rule(RuleKind.DAILY, f"{hour:02}:{minute:02}", name)
        assert _until(made, start, end) == list(daily), (name, made)
        often = round_the_clock(lambda local: local.minute % 20 == 5, zone, start, end)
        assert _until(Rule(RuleKind.CRON, "5/20 * * * *", name), start, end) == list(often), name


def _until(made: Rule, start: datetime, end: datetime) -> list[datetime]:
    found = []
    for one in instants(made, start):
        if one > end:
            break
        found.append(one)
    return found


ODD_ZONES = (
    "Europe/Berlin", "Australia/Lord_Howe", "Europe/Dublin", "Africa/Casablanca", "America/Sao_Paulo", "Asia/Tehran",
    "America/St_Johns", "Pacific/Apia", "Antarctica/Troll", "Asia/Kathmandu", "America/Havana", "Africa/Cairo",
)  # fmt: skip
FEW = st.sets(st.integers(0, 59), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(ODD_ZONES), year=st.sampled_from((1995, 2011, 2016, 2024, 2037, 2150)), minutes=FEW,
    hours=st.sets(st.integers(0, 23), min_size=1, max_size=6), weekdays=st.sets(st.integers(0, 6), min_size=1),
    round_clock=st.booleans(),
)  # fmt: skip
def test_any_cron_agrees_with_the_oracle(
    name: str, year: int, minutes: set[int], hours: set[int], weekdays: set[int], round_clock: bool
) -> None:
    """Invariant: strictly increasing, and exactly what a look at every minute yields."""
    zone = zone_of(name)
    first = datetime(year, 1, 1, tzinfo=UTC)
    change = change_of_clocks(zone, first, first + timedelta(days=366)) or first
    start, end = change - timedelta(hours=14), change + timedelta(hours=14)

    def wanted(local: datetime) -> bool:
        in_hour = round_clock or local.hour in hours
        return local.minute in minutes and in_hour and local.isoweekday() % 7 in weekdays

    def listed(numbers: set[int]) -> str:
        return ",".join(map(str, sorted(numbers)))

    text = f"{listed(minutes)} {'*' if round_clock else listed(hours)} * * {listed(weekdays)}"
    oracle = (round_the_clock if round_clock else times_of_day)(wanted, zone, start, end)
    found = _until(Rule(RuleKind.CRON, text, name), start, end)
    assert found == list(oracle), (text, name)
    assert found == sorted(set(found))


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(ALL_ZONES), year=st.integers(1973, 2100), later=st.integers(0, 300), kind=st.sampled_from(
        [kind for kind in RuleKind if kind is not RuleKind.EVERY]
    ), nudge=st.integers(-90, 90), amount=st.integers(1, 4),
)  # fmt: skip
def test_every_kind_of_rule_agrees_with_the_oracle_in_any_zone_and_year(
    name: str, year: int, later: int, kind: RuleKind, nudge: int, amount: int
) -> None:
    """Invariant: forwards, backwards and the latest of them are the instants that a look at every minute yields (I17).

    The rule's time lies near a change of clocks, its day on it: inside the gap or the fold, if the zone has one. Until
    1972 Monrovia was half a minute off, which whole minutes can't see.
    """
    zone = zone_of(name)
    first = datetime(year, 1, 2, tzinfo=UTC) + timedelta(days=later)
    change = change_of_clocks(zone, first, first + timedelta(days=366)) or first
    start, end = change - timedelta(hours=20), change + timedelta(hours=20)
    local = (change - timedelta(minutes=1)).astimezone(zone).replace(tzinfo=None) + timedelta(minutes=nudge)
    clock = f"{local.hour:02}:{local.minute:02}"

    def wanted(shown: datetime) -> bool:
        if (shown.hour, shown.minute) != (local.hour, local.minute) and kind is not RuleKind.HOURLY:
            return False
        last = calendar.monthrange(shown.year, shown.month)[1]
        return {
            RuleKind.HOURLY: shown.minute == local.minute,
            RuleKind.AT: shown.date() == local.date(),
            RuleKind.DAILY: True,
            RuleKind.CRON: True,
            RuleKind.WEEKLY: shown.weekday() == local.weekday(),
            RuleKind.MONTHLY: shown.day == min(local.day, last),
            RuleKind.ANNUALLY: (shown.month, shown.day) == (local.month, local.day),
        }[kind]

    text = {
        RuleKind.HOURLY: str(local.minute), RuleKind.DAILY: clock,
        RuleKind.WEEKLY: f"{local:%a}@{clock}".lower(), RuleKind.MONTHLY: f"{local.day}@{clock}",
        RuleKind.ANNUALLY: f"{local:%m-%d}@{clock}", RuleKind.AT: f"{local:%Y-%m-%dT%H:%M}",
        RuleKind.CRON: f"{local.minute} {local.hour} * * *",
    }[kind]  # fmt: skip
    made = rule(kind, text, name)
    oracle = list((round_the_clock if kind is RuleKind.HOURLY else times_of_day)(wanted, zone, start, end))
    assert _until(made, start, end) == oracle, (made, change)
    assert latest(made, end, amount, since=start + timedelta(microseconds=1)) == oracle[-amount:]
    for before, after in itertools.pairwise(oracle):
        assert previous(made, after) == before


@pytest.mark.parametrize(
    ("kind", "text", "zone", "code", "names"),
    [
        ("yearly", "x", "UTC", "invalid-rule", "yearly"),
        ("daily", "02:30", "Europe/Atlantis", "unknown-zone", "Atlantis"),
        ("daily", "24:00", "UTC", "invalid-rule", "24:00"),
        ("weekly", "mon@8", "UTC", "invalid-rule", "mon@8"),
        ("weekly", "@08:00", "UTC", "invalid-rule", "@08:00"),
        ("monthly", "32@00:00", "UTC", "invalid-rule", "32@"),
        ("annually", "02-30@00:00", "UTC", "invalid-rule", "02-30"),
        ("hourly", "60", "UTC", "invalid-rule", "60"),
        ("hourly", "²", "UTC", "invalid-rule", "²"),
        ("every", "PT0.5S", "UTC", "too-frequent", "PT0.5S"),
        ("every", "soon", "UTC", "invalid-rule", "soon"),
        ("at", "tomorrow", "UTC", "invalid-time", "tomorrow"),
        ("cron", "* * * *", "UTC", "invalid-cron", "4 fields"),
        ("cron", "61 * * * *", "UTC", "invalid-cron", "'61' is not a minute"),
        ("cron", "* */0 * * *", "UTC", "invalid-cron", "'*/0' is not a hour"),
        ("cron", "* * 9-3 * *", "UTC", "invalid-cron", "day-of-month"),
        ("cron", "* * * * 5L/2", "UTC", "invalid-cron", "day-of-week"),
        ("cron", "0 0 31 2 *", "UTC", "cron-never-fires", "never"),
        ("cron", "0 0 * 2 mon#5,9", "UTC", "invalid-cron", "day-of-week"),
        ("cron", ",".join(["1"] * 10_000) + " * * * *", "UTC", "too-complex", "250"),
        ("cron", "@reboot", "UTC", "invalid-cron", "@reboot"),
    ],
)
def test_a_rule_that_can_not_be_is_refused_by_field_and_value(
    kind: str, text: str, zone: str, code: str, names: str
) -> None:
    faults = FaultList()
    assert parse_rule(kind, text, zone=zone, anchor=None, now=at("2024-01-01T00:00Z"), faults=faults) is None
    assert faults.faults[0].code == code
    assert names in faults.faults[0].detail


@settings(max_examples=300, deadline=None)
@given(st.text("0123456789*/,-#LWmonjafeb @", max_size=30), st.sampled_from([*RuleKind]))
def test_whatever_is_written_is_a_fault_or_a_rule_with_an_end_to_its_search(text: str, kind: RuleKind) -> None:
    faults = FaultList()
    made = parse_rule(kind, text, zone="Europe/Berlin", anchor=None, now=at("2024-01-01T00:00Z"), faults=faults)
    assert (made is None) == bool(faults.faults)
    if made is not None:
        found = list(islice(instants(made, at("2024-10-26T00:00Z")), 3))
        assert found == sorted(set(found))
