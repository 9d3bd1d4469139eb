"""Where hooks may connect to: what is named, and never where credentials are handed out."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from disarray.model.description.spec_table import MisfitError
from disarray.model.outgoing_addresses import read_allow_list

PORTS = (80, 443)


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("hooks.example.com", "hooks.example.com", 443, True),
        ("hooks.example.com", "HOOKS.example.com.", 443, True),
        ("hooks.example.com", "hooks.example.com", 8443, False),
        ("hooks.example.com:8443", "hooks.example.com", 8443, True),
        ("hooks.example.com:8443", "hooks.example.com", 443, False),
        ("hooks.example.com", "evil.hooks.example.com", 443, False),
        ("hooks.example.com", "hooks.example.com.evil.net", 443, False),
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("127.0.0.1:8080", "2130706433", 8080, False),
        ("127.0.0.1:8080", "0x7f.1", 8080, False),
        ("[::1]:8080", "::1", 8080, True),
        ("::1", "0:0:0:0:0:0:0:1", 80, True),
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "10.1.2.3", 8443, False),
        ("10.0.0.0/8", "hooks.example.com", 443, False),
    ],
)
def test_only_what_is_named_may_be_asked_for(entry: str, host: str, port: int, allowed: bool) -> None:
    assert read_allow_list([entry]).names(host, port, usual_ports=PORTS) is allowed


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.170.2",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "0.0.0.0",
        "::",
        "fe80::1",
        "224.0.0.1",
        "ff02::1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "::169.254.169.254",
        "64:ff9b:1::a9fe:a9fe",
    ],
)
def test_no_hook_reaches_a_metadata_service_whatever_is_allowed(address: str) -> None:
    allow = read_allow_list(["meta.example.com", "0.0.0.0/0", "::/0", "169.254.169.254", "fd00:ec2::254"])
    refusal = allow.refusal(ip_address(address), host="meta.example.com", port=80)
    assert "no hook may reach" in str(refusal)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.0.7", "::1", "fd12::1", "fec0::7", "::ffff:10.1.2.3", "::10.1.2.3"],
)
def test_a_name_that_leads_into_the_plant_needs_the_address_allowed_as_well(address: str) -> None:
    named = read_allow_list(["hooks.example.com"])
    assert "no public address" in str(named.refusal(ip_address(address), host="hooks.example.com", port=443))
    known = read_allow_list(
        ["hooks.example.com", "10.0.0.0/8", "127.0.0.1", "192.168.0.7", "::1", "fd12::/16", "fec0::/10"]
    )
    assert known.refusal(ip_address(address), host="hooks.example.com", port=443) is None


def test_a_public_address_of_an_allowed_name_is_fine() -> None:
    allow = read_allow_list(["hooks.example.com"])
    assert allow.refusal(ip_address("93.184.215.14"), host="hooks.example.com", port=443) is None


@pytest.mark.parametrize(
    "entry", ["https://hooks.example.com", "a b", "host:0", "host:70000", "10.0.0.0/33", "*.com", ""]
)
def test_an_entry_that_is_none_is_refused(entry: str) -> None:
    with pytest.raises(MisfitError):
        read_allow_list([entry])
