"""An operator who decides about files at random, by the commands; what is known of each decision is kept."""

from __future__ import annotations

import subprocess
import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.soak.landing import DRAWER, is_ordinary
from tests.soak.plan import Fault
from tests.soak.stations import command, environment_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.soak.landing import Inbox

_WHY = ("--reason", "soak", "--by", "soak")
_COMMANDS: dict[Fault, tuple[str, ...]] = {
    Fault.BLACKLIST: ("files", "blacklist"),
    Fault.ALLOW: ("files", "allow"),
    Fault.REINGEST: ("files", "reingest"),
    Fault.RELEASE: ("quarantine", "release"),
    Fault.REJECT: ("quarantine", "reject"),
}


class Operator:
    """Takes one decision at a time.

    A command that fails may have been done all the same: its answer was lost. So a decision is *certain* only while
    the last command about the file answered that it was done.
    """

    def __init__(self, inbox: Inbox, folder: Path) -> None:
        self._inbox = inbox
        self._folder = folder
        self._turn = threading.Lock()
        self._told: defaultdict[str, list[tuple[Fault, bool]]] = defaultdict(list)
        self.done = 0
        self.refused: list[str] = []

    def decide(self, fault: Fault, choice: float) -> bool:
        """Do what is asked, about a file of its choice; whether it was answered as done."""
        with self._turn:
            name = self._choose(fault, choice)
            if name is None:
                return False
            is_done = self._run(*_COMMANDS[fault], self._inbox.uri(name), *_WHY)
            if fault is not Fault.REINGEST:
                self._told[name].append((fault, is_done))
            return is_done

    def ask(self, *arguments: str) -> bool:
        """A command that is about no single file."""
        with self._turn:
            return self._run(*arguments)

    def certain(self) -> dict[str, Fault]:
        """By name, the last decision that must be in force."""
        return {name: told[-1][0] for name, told in self._told.items() if told[-1][1]}

    def _choose(self, fault: Fault, choice: float) -> str | None:
        names = list(self._inbox.texts)
        match fault:
            case Fault.RELEASE | Fault.REJECT:
                among = [name for name in names if DRAWER in name and name not in self._told]
            case Fault.ALLOW:
                among = [name for name, told in self._told.items() if told[-1][0] is Fault.BLACKLIST]
            case _:
                among = [name for name in names if is_ordinary(name)]
        return among[int(choice * len(among))] if among else None

    def _run(self, *arguments: str) -> bool:
        try:
            ended = subprocess.run(
                command(*arguments),
                cwd=self._folder,
                env=environment_of({}),
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.refused.append(f"{' '.join(arguments)}: no answer")
            return False
        if ended.returncode != 0:
            self.refused.append(f"{' '.join(arguments)}: {ended.stderr.strip()[-300:]}")
        self.done += ended.returncode == 0
        return ended.returncode == 0
