from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres
from tests.ui.oidc.browser import MAP, Site
from tests.ui.oidc.providers import Hostile, Mock


@pytest.fixture(scope="module")
def mock() -> Iterator[Mock]:
    provider = Mock()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def site(mock: Mock, postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two server nodes whose people `mock` signs in."""
    folder = tmp_path_factory.mktemp("site")
    Site.write(folder, mock.issuer)
    with Cluster(postgres.create(), folder, time_scale=CALM) as running:
        running.add_server()
        running.add_server()
        yield Site(running, mock.issuer)


@pytest.fixture(scope="module")
def invited(site: Site, mock: Mock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server node on the same database that lets in only whom somebody added. It has no master key."""
    folder = tmp_path_factory.mktemp("invited")
    Site.write(folder, mock.issuer, MAP + "\njit = false\nlogout = false")
    with Cluster(site.cluster.database, folder, time_scale=CALM) as running:
        running.tokens = site.cluster.tokens
        running.add_server(ROTA_SECRETS_KEY_FILE="")
        yield Site(running, mock.issuer)


@pytest.fixture(scope="module")
def only(site: Site, mock: Mock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server node on the same database that has passwords for emergencies only."""
    folder = tmp_path_factory.mktemp("only")
    Site.write(folder, mock.issuer, MAP + "\nonly = true")
    with Cluster(site.cluster.database, folder, time_scale=CALM) as running:
        running.tokens = site.cluster.tokens
        running.add_server(ROTA_SECRETS_KEY_FILE=str(site.cluster.secrets_key))
        yield Site(running, mock.issuer)


@pytest.fixture(scope="module")
def hostile_provider() -> Iterator[Hostile]:
    provider = Hostile()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def hostile_site(
    hostile_provider: Hostile, postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("hostile")
    Site.write(folder, hostile_provider.issuer)
    with Cluster(postgres.create(), folder, time_scale=CALM) as running:
        running.add_server()
        yield Site(running, hostile_provider.issuer)


@pytest.fixture
def hostile(hostile_provider: Hostile) -> Iterator[Hostile]:
    hostile_provider.honest()
    yield hostile_provider
    hostile_provider.honest()
