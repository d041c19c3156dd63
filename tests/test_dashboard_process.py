import re
import subprocess
import sys
import tomllib
from pathlib import Path

DASHBOARD = Path(__file__).resolve().parent.parent / "dashboard"


def test_the_page_never_loads_torch():
    code = "import sys; from dashboard.views import layer, measure, method; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_the_shipped_configuration_serves_this_machine_only_and_tells_nobody():
    config = tomllib.loads((DASHBOARD / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert config["server"]["address"] == "127.0.0.1"
    assert config["server"]["allowedHosts"] == ["localhost", "127.0.0.1"]
    assert config["server"]["fileWatcherType"] == "none"
    assert config["browser"]["gatherUsageStats"] is False
    assert config["client"]["toolbarMode"] == "viewer"
    assert config["client"]["showErrorDetails"] == "type"
    assert {"light", "dark"} <= set(config["theme"])


def test_nothing_in_the_page_is_fetched_from_another_host():
    texts = [path.read_text(encoding="utf-8") for path in DASHBOARD.rglob("*.py")]
    assert not any("https://" in text or re.search(r":material/\w", text) for text in texts)
