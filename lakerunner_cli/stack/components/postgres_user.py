"""Who PostgreSQL runs as when we are root, which it refuses to be.

In a container everything is often run as root. The owner of an existing cluster is kept, else an account that
every machine has is used; directories on the way get the right to be walked through (not to be read).
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from lakerunner_cli.stack.component import Announce
from lakerunner_cli.stack.errors import StackError

ACCOUNTS = ("postgres", "nobody")


def unprivileged_user(cluster: Path) -> str | None:
    """None when we are not root and can run PostgreSQL as ourselves."""
    if os.geteuid() != 0:
        return None
    if cluster.exists() and cluster.stat().st_uid != 0:
        return pwd.getpwuid(cluster.stat().st_uid).pw_name
    known = {entry.pw_name for entry in pwd.getpwall()}
    for account in ACCOUNTS:
        if account in known:
            return account
    raise StackError(f"PostgreSQL does not run as root and there is no account {' or '.join(ACCOUNTS)}")


def make_reachable(user: str, targets: tuple[Path, ...], announce: Announce) -> None:
    """Give `user` the right to walk through the parents of `targets`, and say where that was needed."""
    account = pwd.getpwnam(user)
    for directory in {parent for target in targets for parent in target.resolve().parents}:
        mode = directory.stat()
        if not _walkable(mode, account):
            announce(f"PostgreSQL runs as {user}: allowing it to walk through {directory} (chmod o+x)")
            directory.chmod(stat.S_IMODE(mode.st_mode) | stat.S_IXOTH)


def _walkable(mode: os.stat_result, account: pwd.struct_passwd) -> bool:
    if mode.st_uid == account.pw_uid:
        return bool(mode.st_mode & stat.S_IXUSR)
    if mode.st_gid == account.pw_gid:
        return bool(mode.st_mode & stat.S_IXGRP)
    return bool(mode.st_mode & stat.S_IXOTH)
