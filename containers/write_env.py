"""Writes ``.env`` for docker-compose.yml: settings to look through, and secrets that nobody has seen.

``python3 containers/write_env.py [FILE]``. A file that is there keeps every value; only what it lacks is added, so that
an upgrade may bring new settings. It is readable by its owner alone.
"""

import base64
import hashlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OTHERS = {"POSTGRES_IMAGE": "postgres:", "VLLM_IMAGE": "vllm/"}
FILES = ("RESOURCES", "PARAMETERS", "S3_CA")
_SET = r"^[ \t]*(?:export[ \t]+)?({})[ \t]*[=:]"
"""A line that sets a variable, in any form that Compose reads."""
_NAME = re.compile(_SET.format("[A-Z][A-Z0-9_]*"), re.MULTILINE)


def secret() -> str:
    """192 random bits in letters, digits, ``-`` and ``_``: safe in an address and in a shell."""
    return secrets.token_urlsafe(24)


def fernet_key() -> str:
    """A key for what Airflow encrypts in its database."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def version() -> str:
    """The version of this checkout, which the images are named after."""
    text = (ROOT / "pipeline_tasks" / "__init__.py").read_text("utf-8")
    return text.split('__version__ = "')[1].split('"')[0]


def docker_socket() -> str:
    """The engine's socket on this machine; an engine elsewhere has none here."""
    socket = os.environ.get("DOCKER_HOST", "").removeprefix("unix://")
    if socket and not socket.startswith("/"):
        raise SystemExit(
            f"DOCKER_HOST={socket} is no socket of this machine, and docker-compose.yml mounts one: run this on the "
            "engine's own machine, or give DOCKER_SOCKET and DOCKER_GID in the file before"
        )
    return socket or "/var/run/docker.sock"


def docker_gid() -> str:
    """The group that may use the socket."""
    socket = Path(docker_socket())
    return str(socket.stat().st_gid) if socket.exists() else "0"


SECTIONS: dict[str, dict[str, Callable[[], str]]] = {
    "Secrets. Changing POSTGRES_PASSWORD here does not change it in a database that exists.": {
        "ADMIN_PASSWORD": secret,
        "POSTGRES_PASSWORD": secret,
        "FERNET_KEY": fernet_key,
        "API_SECRET_KEY": secret,
        "JWT_SECRET": secret,
        "S3_ACCESS_KEY": lambda: secrets.token_hex(10),
        "S3_SECRET_KEY": secret,
        "S3_ADMIN_KEY": lambda: secrets.token_hex(10),
        "S3_ADMIN_SECRET": secret,
        "RAY_AUTH_TOKEN": lambda: secrets.token_hex(32),
    },
    "Airflow's pages: http://BIND:PORT, or BASE_URL of a proxy before it, and who logs in there first.": {
        "BIND": lambda: "127.0.0.1",
        "PORT": lambda: "8080",
        "BASE_URL": lambda: "",
        "FORWARDED_ALLOW_IPS": lambda: "127.0.0.1",
        "S3_PORT": lambda: "8333",
        "ADMIN_USER": lambda: "admin",
    },
    "The engine that steps run on: its socket, the group that may use it, and how many GPUs one step gets.": {
        "DOCKER_SOCKET": docker_socket,
        "DOCKER_GID": docker_gid,
        "GPUS": lambda: "0",
    },
    "Who computes parts of steps, and trains; COMPOSE_PROFILES=ray and FOUNDRY_ENGINE=ray: a Ray cluster.": {
        "FOUNDRY_ENGINE": lambda: "local",
    },
    "Steps: see docs/deployment.md#env, docs/settings.md. COMPOSE_PROFILES=llm or llm-cpu adds a language model.": {
        "FOUNDRY_PROFILE": lambda: "offline",
        "FOUNDRY_DOMAIN": lambda: "disaster",
        "FOUNDRY_SOURCE": lambda: "",
        "FOUNDRY_ALLOW_HOSTS": lambda: "",
        "COMPOSE_PROFILES": lambda: "",
        "OPENAI_BASE_URL": lambda: "",
        "OPENAI_API_KEY": lambda: "",
        "LLM_PRICE_IN": lambda: "",
        "LLM_PRICE_OUT": lambda: "",
        "LLM_USD_PER_MONTH": lambda: "",
        "LLM_TOKENS_PER_MONTH": lambda: "",
        "BRAVE_API_KEY": lambda: "",
    },
    "An incoming webhook that is told of failed tasks and late runs; it is a secret.": {"ALERT_WEBHOOK": lambda: ""},
}


def added(present: str) -> str:
    """The lines that ``present`` lacks, under their headings."""
    known = set(_NAME.findall(present))
    blocks = []
    for heading, fields in SECTIONS.items():
        lines = [f"{name}={value()}" for name, value in fields.items() if name not in known]
        if lines:
            blocks.append("\n".join([f"# {heading}", *lines, ""]))
    return "\n".join(blocks)


def images() -> dict[str, str]:
    """The images of others, by the setting that names each: as ``images.lock`` of this checkout has them."""
    lines = (ROOT / "images.lock").read_text("utf-8").split()
    return {name: next(line for line in lines if line.startswith(kind)) for name, kind in OTHERS.items()}


def contents(text: str) -> dict[str, str]:
    """The SHA-256 of each file that ``text`` or the environment names; Compose has it as a label of what mounts it."""
    said = {found[1]: line[found.end() :] for line in text.splitlines() if (found := _NAME.match(line))} | os.environ
    return {f"{name}_SHA256": _sha256(name, said.get(name, "")) for name in FILES}


def _sha256(name: str, value: str) -> str:
    path = Path(os.path.expandvars(value.split(" #")[0].strip().strip("'\""))).expanduser()
    if not path.name:
        return ""
    try:
        return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
    except OSError as error:
        raise SystemExit(f"{name}={value}: {error.strerror}; it is mounted in the containers: name a file") from None


def as_now(text: str) -> str:
    """``text`` with what belongs to this checkout, its version and images, and what is in the files that it names."""
    for name, value in ({"FOUNDRY_VERSION": version()} | images() | contents(text)).items():
        line = f"{name}={value}"
        text, n = re.subn(_SET.format(name) + ".*$", line, text, flags=re.MULTILINE)
        text = text if n else f"{line}\n{text}"
    return text


def write(path: Path) -> None:
    """Make ``path`` whole; what it says already stays."""
    present = path.read_text("utf-8") if path.exists() else ""
    present += "\n" if present and not present.endswith("\n") else ""
    text = as_now(present + added(present))
    part = path.with_name(path.name + ".part")
    part.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
    part.write_text(text, "utf-8")
    part.replace(path)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".env")
