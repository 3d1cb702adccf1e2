"""A real api-server with a throwaway home, three users and the toy chain's store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from pipeline_tasks.core.store import LocalStore

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/core/lineage"))
import toy  # noqa: E402

USERS = {"ada": "user", "vera": "viewer", "nobody": ""}
PASSWORD = "correct horse"
ASK = "http://127.0.0.1:8090/"
SECRET = "sk-not-for-the-page"
TITLE = "<script>document.title = 'stolen'</script><img src=x onerror=\"document.title='stolen'\">"


@dataclass(frozen=True)
class Server:
    url: str
    home: Path
    store: LocalStore

    def token(self, user: str) -> str:
        answer = httpx.post(f"{self.url}/auth/token", json={"username": user, "password": PASSWORD}, timeout=30)
        return answer.raise_for_status().json()["access_token"]

    def client(self, user: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token(user)}"} if user else {}
        return httpx.Client(base_url=f"{self.url}/lineage", headers=headers, timeout=60)


def start(home: Path, store: Path, port: int) -> subprocess.Popen[bytes]:
    """Airflow's web server for this checkout's plugins."""
    home.mkdir(parents=True, exist_ok=True)
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps(dict.fromkeys(USERS, PASSWORD)))
    environment = os.environ | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__OPENLINEAGE__DISABLED": "True",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "plugins"))),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "FOUNDRY_STORE": str(store),
        "FOUNDRY_ASK_URL": ASK,
        "OPENAI_API_KEY": SECRET,
    }
    airflow = [sys.executable, "-m", "airflow"]
    with (home / "log.txt").open("ab") as log:
        subprocess.run([*airflow, "db", "migrate"], env=environment, check=True, stdout=log, stderr=log)
        command = [*airflow, "api-server", "--host", "127.0.0.1", "--port", str(port)]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def wait_until_up(url: str, child: subprocess.Popen[bytes], log: Path, most_s: float = 600) -> None:
    end = time.monotonic() + most_s
    while time.monotonic() < end and child.poll() is None:
        try:
            httpx.get(f"{url}/api/v2/version", timeout=60).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.3)
    raise AssertionError(f"the api-server is not up: {log.read_text()[-3000:]}")


def hostile_store(folder: Path) -> LocalStore:
    """The toy chain, twice over, with a title, an address and ids that try to run as code."""
    store = LocalStore(folder)
    toy.chain(store, TITLE, "a", "twin", "bad", "c")
    toy.corpus(store, TITLE, "a", "twin", "e")
    return store
