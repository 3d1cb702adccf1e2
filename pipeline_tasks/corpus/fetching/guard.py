"""No request leaves for a private network: names are resolved here, checked here, and connected to as checked.

A page may name or redirect to an address inside (a router, a cloud's metadata service), and a name server may answer
with a public address first and a private one later. So the check is made where a connection is opened, on every address
that the name has, and the connection goes to the address that was checked: nothing resolves the name again.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable

import httpcore

from pipeline_tasks.corpus.fetching.outcomes import Refused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Awaitable[list[str]]]
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NOT_PUBLIC = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20")))
"""Of special use, or a cloud's own (168.63.129.16 is Azure's); some or all Pythons call them global."""
_TRIES = 4


async def system_resolver(host: str, port: int) -> list[str]:
    """Every address that this machine's resolver knows for ``host``; a number (``0x7f.1``) is a name like others."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_public(text: str) -> bool:
    """Whether an address belongs to the public internet; one that carries another inside counts as that one."""
    address = ipaddress.ip_address(text)
    inner = _inside(address)
    if inner is not None:
        return is_public(str(inner))
    if any(address in network for network in _NOT_PUBLIC):
        return False
    if address.is_multicast or address.is_reserved or getattr(address, "is_site_local", False):
        return False
    return address.is_global


def _inside(address: Address) -> Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


class Guard(httpcore.AsyncNetworkBackend):
    """Opens connections to public addresses, and to hosts that are allowed by name.

    Args:
        allow_hosts: ``host`` or ``host:port`` as they stand in URLs; not looked at any further.
        resolver: finds the addresses of a name.
    """

    def __init__(self, allow_hosts: Iterable[str] = (), resolver: Resolver = system_resolver) -> None:
        self._allowed = {host.lower() for host in allow_hosts}
        self._resolve = resolver
        self._network = httpcore.AnyIOBackend()

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of ``host``.

        Raises:
            Refused: one of them is not public, or the name is none.
            OSError: it has none.
        """
        try:
            found = await self._resolve(host, port)
        except UnicodeError as error:
            raise Refused("bad_url", f"{host!r} is no host name: {error}") from error
        name = f"[{host}]" if ":" in host else host  # as URLs write an IPv6 address
        if not {each.lower() for each in (host, name, f"{name}:{port}")} & self._allowed:
            private = sorted(address for address in found if not is_public(address))
            if private:
                raise Refused("private_address", f"{host} is {private[0]}; FOUNDRY_ALLOW_HOSTS would let it pass")
        return found

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to one of the checked addresses of ``host``, the first that answers.

        Raises:
            Refused: see :meth:`addresses`.
            httpcore.ConnectError: no address answers, or the name has none.
            httpcore.ConnectTimeout: it took longer than ``timeout``.
        """
        try:
            async with asyncio.timeout(timeout):
                return await self._connect(host, port, socket_options)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"no connection to {host}:{port} within {timeout:g} s") from error

    async def _connect(
        self, host: str, port: int, options: Iterable[httpcore.SOCKET_OPTION] | None
    ) -> httpcore.AsyncNetworkStream:
        try:
            found = await self.addresses(host, port)
        except OSError as error:
            raise httpcore.ConnectError(f"{host}: {error}") from error
        failure = httpcore.ConnectError(f"{host} has no address")
        for address in found[:_TRIES]:
            try:
                return await self._network.connect_tcp(address, port, None, None, options)
            except httpcore.ConnectError as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        """Part of the backend's interface."""
        await asyncio.sleep(seconds)
