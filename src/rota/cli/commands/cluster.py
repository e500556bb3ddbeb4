"""`rota me`, `rota node` and `rota server`: the caller's limits, and the parts of the cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import cluster_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import cluster_calls

_Node = Annotated[str, typer.Argument(metavar="NAME", help="Name or number of the node.")]


def add_to(app: typer.Typer) -> None:
    add_command(app, "me", me, "rota me", "rota me -o json")
    node = add_group(app, "node", "Manage nodes: machines that run tasks.")
    add_command(node, "list", list_nodes, "rota node list", "rota node list --all")
    add_command(node, "show", show_node, "rota node show n1", "rota node show 3 -o json")
    add_command(node, "drain", drain_node, "rota node drain n1", "rota node drain n1 --deadline 10m")
    add_command(node, "undrain", undrain_node, "rota node undrain n1")
    add_command(node, "reload", reload_node, "rota node reload n1")
    add_command(node, "remove", remove_node, "rota node remove n1")
    add_command(node, "forget-key", forget_key, "rota node forget-key n1")
    server = add_group(app, "server", "Show server nodes.")
    add_command(server, "list", list_servers, "rota server list")
    server.callback()(_group)


def me(output_format: Output = Format.TABLE) -> None:
    """Show your tenant, your plan's limits and how much of them is used."""
    show(cluster_calls.me(), output_format, cluster_tables.me)


def list_nodes(
    everything: Annotated[
        bool, typer.Option("--all", help="Include nodes that have been away for more than a day.")
    ] = False,
    output_format: Output = Format.TABLE,
) -> None:
    """List nodes, their capacity and their free resources."""
    show(cluster_calls.nodes(everything=everything), output_format, cluster_tables.nodes)


def show_node(name: _Node, output_format: Output = Format.TABLE) -> None:
    """Show a node: its state, its capacity and its free resources."""
    show(cluster_calls.node(name), output_format, cluster_tables.node)


def drain_node(
    name: _Node,
    deadline: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Tasks that still run then save, stop and run elsewhere."),
    ] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Drain a node: it gets no new tasks until undrained; running tasks may finish (operators)."""
    wanted = checks.duration("--deadline", deadline)
    show(cluster_calls.drain(name, deadline=wanted), output_format, cluster_tables.drained)


def undrain_node(name: _Node, output_format: Output = Format.TABLE) -> None:
    """End the drain of a node, so that it gets tasks again (operators)."""
    show(cluster_calls.undrain(name), output_format, lambda node: f"node {node.name} takes work again")


def reload_node(name: _Node, output_format: Output = Format.TABLE) -> None:
    """Reload the functions of a node after a deploy. Running calls may finish (operators)."""
    show(cluster_calls.reload(name), output_format, lambda node: f"node {node.name} loads its functions anew")


def remove_node(name: _Node, output_format: Output = Format.TABLE) -> None:
    """Remove a node that has left or is lost, with its key. Its worker joins anew if it comes back (operators)."""
    show(cluster_calls.remove_node(name), output_format, lambda _: f"node {name} is removed")


def forget_key(name: _Node, output_format: Output = Format.TABLE) -> None:
    """Forget the key of a node: its agent is refused, and another machine may join under the name (operators)."""
    done = (
        f"the key of node {name} is forgotten; a machine joins under the name with a join token (rota worker-key add)"
    )
    show(cluster_calls.forget_node_key(name), output_format, lambda _: done)


def list_servers(output_format: Output = Format.TABLE) -> None:
    """List server nodes: state, when each was last seen, and the pools it leads. Ended ones stay listed for an hour."""
    show(cluster_calls.servers(), output_format, cluster_tables.servers)


def _group() -> None:
    # Without a callback Typer takes a group of one command for the command itself.
    pass
