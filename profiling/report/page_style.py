"""How the HTML report looks, in daylight and in the dark, on a screen of any width and on paper."""

from __future__ import annotations

STYLE = """
:root { --paper: #ffffff; --ink: #1b1f24; --soft: #59636e; --line: #d1d9e0; --card: #f6f8fa; --accent: #0072B2;
  color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #0e1117; --ink: #e6e8eb; --soft: #9aa4af; --line: #30363d; --card: #171b22; --accent: #5fb4e5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1200px; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .4rem; }
a { color: var(--accent); } code, pre { font-family: ui-monospace, monospace; font-size: .88em; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .7rem; overflow-x: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.soft, figcaption { color: var(--soft); font-size: .9rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: .8rem;
  margin: 1rem 0; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; overflow-wrap: anywhere; }
.card b { font-size: 1.25rem; display: block; }
.numbers { display: flex; flex-wrap: wrap; gap: .4rem 1.6rem; margin: .4rem 0; }
figure { margin: 1rem 0; } figcaption { margin-top: .2rem; }
.scroll { overflow: auto; max-height: 32rem; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; font-size: .85rem; } td, th { padding: .25rem .6rem; text-align: left;
  border-bottom: 1px solid var(--line); white-space: nowrap; max-width: 26rem; overflow: hidden;
  text-overflow: ellipsis; }
thead th { position: sticky; top: 0; background: var(--card); } th button { all: unset; cursor: pointer; }
th button:focus-visible { outline: 2px solid var(--accent); }
td.number { text-align: right; font-variant-numeric: tabular-nums; } td.grey { color: var(--soft); }
.facts :is(td, th) { white-space: normal; overflow-wrap: anywhere; min-width: 7rem; } summary { cursor: pointer; }
.js-plotly-plot :is([class$="tick"], .colorbar) text { fill: var(--ink) !important; }
.js-plotly-plot :is([class$="title"], .legendtext, .annotation-text) { fill: var(--ink) !important; }
.js-plotly-plot .gridlayer path { stroke: var(--line) !important; }
@media print { .scroll { max-height: none; } .modebar { display: none; } }
"""

# A click on a column's name sorts by it: numbers as numbers, what is empty last.
SORTING = """
for (const button of document.querySelectorAll('th button')) button.addEventListener('click', () => {
  const head = button.closest('th'), body = head.closest('table').tBodies[0];
  const up = head.getAttribute('aria-sort') !== 'ascending';
  for (const other of head.parentNode.children) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const value = row => row.cells[head.cellIndex].dataset.value ?? row.cells[head.cellIndex].textContent;
  const order = (a, b) => isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b;
  const compare = (a, b) => (a === '') - (b === '') || (up ? 1 : -1) * order(a, b);
  body.append(...[...body.rows].sort((one, other) => compare(value(one), value(other))));
});
"""
