"""A hook of mkdocs: one link serves a reader of the repository and a reader of the site.

Pages link to files of the repository by relative paths. Files outside `docs/` that a page links to become pages of
the site below `source/`; the README becomes its first page.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
HOME = ROOT / "README.md"
SOURCE = "source"
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
_LANGUAGES = {"": "bash", ".service": "ini", ".rules": "bash", ".network": "ini", ".dbc": "text"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README, and what pages link to outside `docs/`, then what those pages link to."""
    waiting = [HOME, *(DOCS / f.src_uri for f in files.documentation_pages())]
    waiting += [_find_path(uri) for uri in _find_uris(config.nav or [])]
    done: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in done or not path.is_file():
            continue
        done.add(path)
        uri = _find_uri(path)
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=_render(path), inclusion=_inclusion(uri)))
        if path.suffix == ".md":
            waiting += [_resolve(path, link) for link in _LINK.findall(path.read_text(encoding="utf-8"))]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links between files of the repository as links between pages of the site."""
    path = _find_path(page.file.src_uri)
    if path.suffix != ".md":
        return markdown
    up = "../" * page.file.src_uri.count("/")

    def rewrite(match: re.Match[str]) -> str:
        target = _resolve(path, match[1])
        return up + _find_uri(target) if target.is_file() else match[1]

    return _LINK.sub(rewrite, markdown)


def _resolve(path: Path, link: str) -> Path:
    return (path.parent / link).resolve()


def _find_uri(path: Path) -> str:
    """Of the page that shows a file of the repository."""
    if path == HOME:
        return "index.md"
    if path.is_relative_to(DOCS) and path.suffix != ".py":
        return path.relative_to(DOCS).as_posix()
    uri = f"{SOURCE}/{path.relative_to(ROOT).as_posix()}"
    return uri if path.suffix == ".md" else f"{uri}.md"


def _find_path(uri: str) -> Path:
    """Of the file that a page shows."""
    if uri == "index.md":
        return HOME
    if not uri.startswith(f"{SOURCE}/"):
        return DOCS / uri
    path = ROOT / uri.removeprefix(f"{SOURCE}/")
    return path if path.is_file() else path.with_name(path.name.removesuffix(".md"))


def _find_uris(nav: Iterable[object]) -> Iterable[str]:
    """All pages that the navigation names."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            for below in entry.values():
                yield from _find_uris([below] if isinstance(below, str) else below)


def _inclusion(uri: str) -> InclusionLevel:
    return InclusionLevel.INCLUDED if uri == "index.md" else InclusionLevel.NOT_IN_NAV


def _render(path: Path) -> str:
    """Markdown as it is, other text as a block of code that the search leaves out."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    language = _LANGUAGES.get(path.suffix, path.suffix.removeprefix("."))
    title = path.relative_to(ROOT).as_posix()
    return f"---\nsearch: {{exclude: true}}\n---\n# {title}\n\n````{language}\n{text}````\n"
