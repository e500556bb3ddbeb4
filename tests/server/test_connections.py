"""Which connection makes room for a new one, and when there is none."""

from __future__ import annotations

import pytest

from rota.server import connections
from rota.server.connections import Connections, network_of
from rota.settings import HttpLimits


class _Connection:
    def __init__(self, book: Connections, address: str) -> None:
        self.book = book
        self.is_ended = False
        self.fault = book.enter(self, address)
        if self.fault is None:
            book.waits(self, self)

    def end(self) -> None:
        """As a transport does: the connection is lost a moment later."""
        self.is_ended = True

    def lose(self) -> None:
        self.book.works(self)
        self.book.read(self)
        self.book.leave(self)


def _book(*, most: int = 100, per_address: int = 100) -> Connections:
    return Connections(HttpLimits(connections=most, connections_per_address=per_address))


def test_the_connection_that_waited_longest_at_an_address_makes_room_for_one_of_the_same_address() -> None:
    book = _book(per_address=2)
    other, first, second = (_Connection(book, address) for address in ("10.0.0.9", "10.0.0.1", "10.0.0.1"))
    book.works(first)
    book.waits(first, first)  # it has been answered since
    third = _Connection(book, "10.0.0.1")
    assert third.fault is None
    assert [one.is_ended for one in (other, first, second)] == [False, False, True]


def test_an_address_whose_connections_are_all_busy_gets_no_more_and_others_do() -> None:
    book = _book(per_address=2)
    for _ in range(2):
        book.works(_Connection(book, "10.0.0.1"))
    assert "this address has 2 connections" in str(_Connection(book, "10.0.0.1").fault)
    assert _Connection(book, "10.0.0.2").fault is None


def test_a_full_node_ends_the_oldest_waiting_connection_of_anybody_and_refuses_when_all_are_busy() -> None:
    book = _book(most=2)
    first, second = _Connection(book, "10.0.0.1"), _Connection(book, "10.0.0.2")
    third = _Connection(book, "10.0.0.3")
    assert (first.is_ended, second.is_ended, third.fault) == (True, False, None)
    first.lose()
    for one in (second, third):
        book.works(one)
    assert _Connection(book, "10.0.0.4").fault == "all 2 connections of this server node are busy"
    second.lose()
    assert _Connection(book, "10.0.0.4").fault is None


def test_nothing_is_remembered_of_connections_that_are_gone() -> None:
    book = _book()
    many = [_Connection(book, f"10.0.0.{number % 5}") for number in range(50)]
    for one in many:
        book.unread(one, 1000)
    for one in many:
        one.lose()
        one.lose()  # a WebSocket leaves once more
    assert len(book) == 0
    assert (book._addresses, book._waiting, book._unread, book._unread_bytes) == ({}, {}, {}, 0)


def test_the_oldest_unread_answers_end_when_all_of_them_are_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_BYTES", 1000)
    book = _book()
    first, second, third = (_Connection(book, "10.0.0.1") for _ in range(3))
    book.unread(first, 600)
    book.unread(second, 300)
    book.unread(third, 600)
    assert [one.is_ended for one in (first, second, third)] == [True, False, False]
    book.read(second)
    book.unread(second, 5000)
    assert [one.is_ended for one in (second, third)] == [False, True], "the newest may be as large as it is"


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("", ""),
    ],
)
def test_an_ipv6_network_counts_as_one_address(address: str, network: str) -> None:
    assert network_of(address) == network
