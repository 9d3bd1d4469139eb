"""Where the program may connect to of its own accord: names and addresses that the configuration allows.

A name that is allowed may still lead astray: whoever answers for it in the DNS could let it point into the network of
the plant. So an address that is not public has to be allowed itself, and those of metadata services, which hand out
credentials to whoever asks, never are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from disarray.model.description.spec_table import MisfitError

if TYPE_CHECKING:
    from collections.abc import Iterable

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*"
)
_ENTRY = re.compile(r"(?P<host>\[[^\]]+\]|[^:\[\]]+)(:(?P<port>[0-9]{1,5}))?")
_EXPECTED = "a host, HOST:PORT, an address or a network such as 10.0.0.0/8"
# Link-local addresses, and those at which clouds answer with credentials.
_NEVER: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "169.254.0.0/16",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
        "255.255.255.255/32",
        "::/128",
        "fe80::/10",
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
        # A translator of the network's own: which address of IPv4 it leads to, only that network knows.
        "64:ff9b:1::/48",
    )
)
# IPv6 addresses that stand for one of IPv4: by a public translator, or as they were once written (::10.1.2.3).
_TRANSLATED = ip_network("64:ff9b::/96"), ip_network("::/96")
_LOOPBACK = IPv6Address("::1")


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """A name, or an address in its one spelling; without a port, the usual ones of what is spoken."""

    host: str
    port: int | None


@dataclass(frozen=True, slots=True)
class AllowList:
    """What `hooks.allow` says."""

    hosts: frozenset[AllowedHost] = frozenset()
    networks: tuple[Network, ...] = ()

    def names(self, host: str, port: int, *, usual_ports: Iterable[int]) -> bool:
        """Whether a host may be asked for at this port; to which address it leads is another question."""
        wanted = canonical_host(host)
        if AllowedHost(wanted, port) in self.hosts:
            return True
        if port not in set(usual_ports):
            return False
        address = address_of(wanted)
        within = address is not None and any(address in network for network in self.networks)
        return within or AllowedHost(wanted, None) in self.hosts

    def refusal(self, address: Address, *, host: str, port: int) -> str | None:
        """Why an address to which an allowed host leads may not be connected to; None where it may."""
        plain = _plain(address)
        if plain.is_multicast or any(plain in network for network in _NEVER):
            return f"{host} leads to {address}, which no hook may reach, whatever is allowed"
        if plain.is_global and not (isinstance(plain, IPv6Address) and plain.is_site_local):
            return None
        named = {str(plain), str(address)}
        if plain.is_loopback:
            named.add("localhost")
        if any(each.host in named and each.port in (None, port) for each in self.hosts):
            return None
        if any(plain in network for network in self.networks):
            return None
        return f'{host} leads to {address}, which is no public address; allow that as well: hooks.allow = ["{plain}"]'


def read_allow_list(entries: Iterable[str]) -> AllowList:
    """Entries as values; `MisfitError` names the one that is none."""
    hosts: set[AllowedHost] = set()
    networks: list[Network] = []
    for entry in entries:
        if "/" in entry:
            try:
                networks.append(ip_network(entry))
            except ValueError as error:
                raise MisfitError(_EXPECTED, found=entry, hint=str(error)) from None
        else:
            hosts.add(_read_host(entry))
    return AllowList(frozenset(hosts), tuple(networks))


def canonical_host(host: str) -> str:
    """The one spelling of a name or address."""
    bare = host.strip("[]").rstrip(".").lower()
    address = address_of(bare)
    return bare if address is None else str(address)


def address_of(host: str) -> Address | None:
    """The address that a host is written as; None where it is a name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _read_host(entry: str) -> AllowedHost:
    if address_of(entry) is not None:
        return AllowedHost(canonical_host(entry), None)
    found = _ENTRY.fullmatch(entry)
    if found is None or (found["port"] is not None and not 0 < int(found["port"]) < 65_536):
        raise MisfitError(_EXPECTED, found=entry)
    host = canonical_host(found["host"])
    if address_of(host) is None and not _NAME.fullmatch(host):
        raise MisfitError(_EXPECTED, found=entry)
    return AllowedHost(host, None if found["port"] is None else int(found["port"]))


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address != _LOOPBACK and any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
