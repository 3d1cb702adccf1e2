"""``foundry check`` over the toy steps of tests/dags: the remedy that it tells works."""

import json


def test_damage_is_told_and_its_remedy_works(toys, tmp_path):
    for arguments in (["run", "count", "--set", "parts=2"], ["run", "square"]):
        assert toys(*arguments).returncode == 0
    whole = toys("check")
    assert (whole.returncode, whole.stdout.strip()) == (0, "all 3 objects are whole")
    squares = toys("run", "square").stdout.strip()
    manifest = tmp_path / "store" / "versions" / (squares.replace("@", "/") + ".json")
    sha256 = json.loads(manifest.read_text())["parts"][-1]["sha256"]
    part = tmp_path / "store" / "objects" / sha256[:2] / f"{sha256}.parquet"
    part.write_bytes(part.read_bytes()[:-1] + b"?")

    told = toys("check")
    assert told.returncode == 2 and sha256 in told.stdout and squares in told.stdout
    assert told.stderr.strip().splitlines()[-1] == (
        "foundry: 1 of 3 objects, and 1 versions of them, are lost; copy these objects over from a backup, or "
        "`foundry check --drop` and then run again, in this order: square"
    )
    assert "reused" in toys("run", "square").stderr, "which is why it must be dropped"
    dropped = toys("check", "--drop")
    assert dropped.returncode == 0 and dropped.stdout.strip().endswith("run again, in this order: square")
    again = toys("run", "square")
    assert "built" in again.stderr and again.stdout.strip() == squares
    assert toys("check").returncode == 0
