"""A Kerberos realm of a test's own: MIT's KDC on a loopback address, with its database in a directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lior.testing.serving import loopback_address

REALM = "LIOR.TEST"
MISSING = next((name for name in ("krb5kdc", "kadmin.local", "kdb5_util", "kinit")
                if shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin") is None), "")


class Realm:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.keytab = directory / "host.keytab"
        self.address = loopback_address()

    def configure(self) -> dict[str, str]:
        (self.directory / "krb5.conf").write_text(f"""
[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {REALM} = {{
  kdc = {self.address}:8888
 }}
""")
        (self.directory / "kdc.conf").write_text(f"""
[kdcdefaults]
 kdc_listen = {self.address}:8888
 kdc_tcp_listen = {self.address}:8888
[realms]
 {REALM} = {{
  database_name = {self.directory}/principal
  key_stash_file = {self.directory}/stash
  acl_file = {self.directory}/acl
 }}
[logging]
 kdc = FILE:{self.directory}/kdc.log
""")
        return {"KRB5_CONFIG": str(self.directory / "krb5.conf"), "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
                "KRB5CCNAME": f"{self.directory}/tickets", "KRB5RCACHENAME": f"dfl:{self.directory}/replay",
                "KRB5RCACHEDIR": str(self.directory)}

    def run(self, *command: str, text: str = "") -> None:
        subprocess.run(command, input=text, text=True, check=True, capture_output=True, timeout=60)

    def admin(self, query: str) -> None:
        self.run("kadmin.local", "-r", REALM, "-q", query)


@contextmanager
def realm(directory: Path, host: str) -> Iterator[Realm]:
    """With a user joe (password `secret`), who has a ticket, and a keytab of host/HOST."""
    directory.mkdir()
    made = Realm(directory)
    before = dict(os.environ)
    os.environ.update(made.configure())
    os.environ["PATH"] += ":/usr/sbin"
    kdc: subprocess.Popen[bytes] | None = None
    try:
        made.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master key")
        made.admin("addprinc -pw secret joe")
        made.admin(f"addprinc -randkey host/{host}")
        made.admin(f"ktadd -k {made.keytab} host/{host}")
        kdc = subprocess.Popen(["krb5kdc", "-n", "-r", REALM], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(50):  # it tells nobody when it listens
            ended = subprocess.run(["kinit", "joe"], input="secret\n", text=True, capture_output=True, timeout=60)
            if ended.returncode == 0:
                break
        else:
            raise AssertionError(ended.stderr)
        made.run("kvno", f"host/{host}")  # for clients that only know tickets they find
        yield made
    finally:
        if kdc is not None:
            kdc.terminate()
            kdc.communicate(timeout=30)
        os.environ.clear()
        os.environ.update(before)
