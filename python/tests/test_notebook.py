# SPDX-License-Identifier: MIT OR Apache-2.0
"""The notebook in `examples/`: every cell runs, and prints what the file holds."""

import ast
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "examples" / "costs.ipynb"


def last_value(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell, and gives the value of its last line, as a notebook does."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_the_notebook_runs_and_prints_what_it_holds() -> None:
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    compared = 0
    for cell in book["cells"]:
        if cell["cell_type"] != "code":
            continue
        value = last_value("".join(cell["source"]), names)
        for output in cell["outputs"]:
            held = "".join(output["data"]["text/plain"])
            # A notebook folds long values.
            assert "".join(repr(value).split()) == "".join(held.split())
            compared += 1
    assert compared >= 6
    assert names["result"]._repr_html_().startswith("<p>On xeon_x5650")
