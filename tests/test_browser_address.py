"""An address full of nonsense in a real chromium, served where a proxy is set that reaches nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser_server import MAY_SKIP, Server
from playwright.sync_api import Page, expect

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium"),
]

NONSENSE = (
    "d_model=inf&layer_d_model=inf&layer_dtype=x&threads=1e99&seed=-1&replicates=%D9%A3&budget=nan&dtype=float8&dtype=%00&device=cuda:7&heap="
    f"{'x' * 5000}&fixed=both&contenders=%3Cscript%3E&tab=none&x=none&run=..%2F..%2Fetc&utm_source=a&embed_options=%22"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
            patch.setenv(name, "http://127.0.0.1:9")
        for name in ("no_proxy", "NO_PROXY"):
            patch.delenv(name, raising=False)
        running = Server(tmp_path_factory.mktemp("server"))
        yield running
        running.end()


@pytest.mark.soak
def test_an_address_full_of_nonsense_opens_the_page_and_is_told(watched: Page, server: Server) -> None:
    watched.goto(server.url(NONSENSE + "&batch_size=1.5&seq_len=5,7"))
    notice = watched.get_by_text("The link asks for what cannot be")
    expect(notice).to_be_visible()
    expect(watched.locator(".stApp")).to_contain_text("d_model must be a whole number, not 'inf'")
    button = watched.get_by_role("button", name="Run sweep")
    expect(button).to_be_disabled()
    told = "batch_size must be whole numbers separated by commas, not '1.5'."
    expect(watched.get_by_text(told)).to_have_count(2)  # by the control and by the button
    sizes = watched.get_by_role("textbox", name="Batch sizes")
    sizes.fill("3")
    sizes.press("Enter")
    expect(button).to_be_enabled()
    expect(watched.get_by_text(told)).to_have_count(0)
    expect(watched.get_by_role("textbox", name="Sequence lengths")).to_have_value("5,7")
    assert "inf" not in watched.url
    watched.get_by_role("link", name="My layer").click()
    expect(watched.get_by_role("spinbutton", name="d_model")).to_have_value("64")
