"""Certificates for tests, made with the openssl program into a folder."""
import os
import subprocess
import time


def openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.decode()}")
    return done.stdout.decode()


class Authority:
    """`Authority(folder, "ca").ca` is a PEM file to trust; issue() makes what a server shows."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.ca, self.key = self.path(f"{name}.pem"), self.path(f"{name}.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.ca)

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name, names="IP:127.0.0.1,DNS:localhost", days=1, usage=None, rsa=False):
        """(certificate, key): the paths of PEM files."""
        chain, key, request = (self.path(f"{name}.{end}") for end in ("crt", "key", "csr"))
        kind = ["rsa:2048"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        openssl("req", "-newkey", *kind, "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        extensions = self.path(f"{name}.ext")
        with open(extensions, "w") as f:
            f.write(f"subjectAltName={names}\n" + (f"extendedKeyUsage={usage}\n" if usage else ""))
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key, "-CAcreateserial",
                "-days", str(days), "-extfile", extensions, "-out", chain)
        return chain, key

    def issue_expired(self, name):
        made = self.issue(name, days=0)
        while subprocess.run(["openssl", "x509", "-in", made[0], "-noout", "-checkend", "0"],
                             capture_output=True).returncode == 0:
            time.sleep(0.1)
        return made
