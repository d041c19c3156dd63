"""A person's own layer in a real chromium, checked and measured by the real engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_server import MAY_SKIP, Server, watch
from playwright.sync_api import BrowserContext, Page, expect

from profiling.runs import read_run
from profiling.table import load_run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(MAY_SKIP, reason="needs Debian's chromium"),
]

LAYER = """
import torch


class MyAttention(torch.nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.W_Q, self.W_K, self.W_V, self.W_O = (torch.nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (W(x).view(b, s, self.num_heads, -1).transpose(1, 2) for W in (self.W_Q, self.W_K, self.W_V))
        attn_weights = torch.softmax(q @ k.transpose(-2, -1) / SCALE**0.5, dim=-1)
        return self.W_O((attn_weights @ v).transpose(1, 2).reshape(b, s, d))
"""
WRONG = LAYER.replace("SCALE", "d")
RIGHT = LAYER.replace("SCALE", "self.head_dim")


@pytest.fixture(scope="module")
def layer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("layers") / "my_attention.py"


@pytest.fixture(scope="module")
def layer_server(tmp_path_factory: pytest.TempPathFactory, layer_file: Path) -> Iterator[Server]:
    layer_file.write_text(WRONG)
    running = Server(tmp_path_factory.mktemp("server"), [f"{layer_file}:MyAttention", "gone.py:Layer"])
    yield running
    running.end()


@pytest.fixture
def layer_page(context: BrowserContext, layer_server: Server) -> Iterator[Page]:
    yield from watch(context, layer_server)


@pytest.mark.soak
def test_a_wrong_layer_is_told_what_is_wrong_and_passes_once_its_file_is_mended(layer_page, layer_server, layer_file):
    layer_file.write_text(WRONG)
    layer_page.goto(layer_server.url())
    layer_page.get_by_role("link", name="My layer").click()
    verdict = layer_page.locator(".st-key-layer_verdict")
    expect(verdict).to_contain_text("✘ fail")
    expect(verdict).to_contain_text(re.compile(r"(\d+) of \1 planted faults caught"))
    expect(layer_page.locator(".st-key-layer_diagnosis")).to_contain_text("scale-d-model")
    expect(layer_page.locator(".st-key-layer_error")).to_contain_text("✘ does not hold")
    expect(layer_page.get_by_text("there is no file gone.py")).to_be_visible()
    expect(layer_page.locator(".stApp")).to_contain_text("check_consistency(MyAttention, d_model=64, num_heads=4)")
    heads = layer_page.get_by_role("spinbutton", name="Heads")
    heads.fill("2")
    heads.press("Enter")
    expect(layer_page).to_have_url(re.compile(r"/layer\?.*layer_num_heads=2"))
    expect(layer_page.locator(".stApp")).to_contain_text("check_consistency(MyAttention, d_model=64, num_heads=2)")
    expect(verdict).to_contain_text("✘ fail")
    layer_file.write_text(RIGHT)  # an editor saves it; nobody touches the page
    expect(verdict).to_contain_text("✓ pass")


@pytest.mark.soak
def test_a_layer_of_ones_own_is_measured_beside_ours(layer_page, layer_server, layer_file):
    layer_file.write_text(RIGHT)
    spec = f"{layer_file}:MyAttention"
    tiny = "batch_size=2&num_heads=3&d_model=15&seq_len=5&budget=0.02&contenders=custom&quiet_wait=0"
    layer_page.goto(layer_server.url(f"{tiny}&contenders={spec}"))
    run = layer_page.get_by_role("button", name="Run sweep")
    expect(run).to_be_enabled()
    expect(layer_page.get_by_text("MyAttention, from")).to_be_visible()
    run.click()
    expect(layer_page.get_by_test_id("stProgress")).to_be_visible()
    expect(run).to_be_enabled()
    folder = layer_server.newest()
    assert read_run(folder).state == "finished"
    rows = load_run(folder).set_index("contender")
    assert set(rows.index) == {"custom", "official", spec}
    assert rows.loc[spec, "check_verdict"] == "pass"
    assert rows.loc[spec, "latency_median_ms"] > 0
    expect(layer_page.locator("[class*='st-key-headline_']").filter(has_text="MyAttention")).to_be_visible()
