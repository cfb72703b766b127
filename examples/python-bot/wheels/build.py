"""Builds the wheel beside this file from src.

A wheel is a ZIP of the package and of a folder that describes it; RECORD lists
every file with its hash. Dates are fixed, so the same source gives the same
bytes.
"""

import base64
import hashlib
import pathlib
import zipfile

NAME, VERSION = "berth_greeting", "1.0"
HERE = pathlib.Path(__file__).parent
INFO = f"{NAME}-{VERSION}.dist-info"


def contents():
    """Yield the path and the bytes of every file but RECORD."""
    for path in sorted((HERE / "src").rglob("*.py")):
        yield path.relative_to(HERE / "src").as_posix(), path.read_bytes()
    yield f"{INFO}/METADATA", (
        "Metadata-Version: 2.1\n"
        "Name: berth-greeting\n"
        f"Version: {VERSION}\n"
        "Summary: A greeting, to have something to install\n"
    ).encode()
    yield f"{INFO}/WHEEL", (
        "Wheel-Version: 1.0\nGenerator: build.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ).encode()


def main():
    files = list(contents())
    record = ""
    for name, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files.append((f"{INFO}/RECORD", (record + f"{INFO}/RECORD,,\n").encode()))
    target = HERE / f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as wheel:
        for name, data in files:
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data)
    print(target.name, hashlib.sha256(target.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
