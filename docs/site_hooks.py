"""What ``mkdocs build`` does beside turning pages into HTML (``hooks`` of mkdocs.yml).

- The change log and the guide for contributors, which lie beside ``docs/``, become pages of the site.
- Diagrams are drawn by Mermaid where its script is at hand: ``MERMAID_JS`` names it, or ``npm install mermaid`` has put
  it into ``node_modules``. It is copied into the site then. Without it a diagram is shown as its text; no page loads
  anything from elsewhere in either case.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from pymdownx.superfences import fence_code_format, fence_div_format

ROOT = Path(__file__).resolve().parent.parent
#: Page of the site → the file beside ``docs/`` that it is made of.
BESIDE = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
SCRIPT = "js/mermaid.min.js"


def mermaid_script() -> Path | None:
    """Where Mermaid's script is, if anywhere."""
    named = os.environ.get("MERMAID_JS")
    path = Path(named) if named else ROOT / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"
    if named and not path.is_file():
        raise SystemExit(f"MERMAID_JS: there is no file {path}")
    return path if path.is_file() else None


def on_config(config: Any) -> Any:
    """Have diagrams drawn, or shown as text."""
    script = mermaid_script()
    if script is not None:
        config.extra_javascript.append(SCRIPT)
    drawn = {"name": "mermaid", "class": "mermaid", "format": fence_div_format}
    fence = drawn if script is not None else {**drawn, "class": "diagram", "format": fence_code_format}
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie beside ``docs/``, and the script."""
    for page, source in BESIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=re.sub(r"\]\(docs/", "](", text)))
    script = mermaid_script()
    if script is not None:
        files.append(File.generated(config, SCRIPT, abs_src_path=str(script)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to files beside ``docs/`` to the pages made of them."""
    for page, source in BESIDE.items():
        markdown = re.sub(rf"\]\((?:\.\./)+{re.escape(source)}", f"]({page}", markdown)
    return markdown
