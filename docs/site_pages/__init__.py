"""What this site adds to Sphinx: pages made from the code, links that leave docs/, and cells of commands."""

from typing import Any

from site_pages import accessible, cells, commands, docstrings, formulas, gallery, names, outside, python


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this when it loads the extension."""
    app.add_html_math_renderer("mathml", (formulas.write_inline, None), (formulas.write_block, None))
    app.connect("builder-inited", write_pages)
    app.connect("source-read", outside.keep_links)
    app.connect("doctree-read", cells.show_commands)
    app.connect("autodoc-process-docstring", docstrings.keep_formulas, priority=100)
    app.connect("autodoc-process-docstring", docstrings.keep_properties, priority=900)
    app.connect("sphinx-click-process-description", docstrings.keep_help)
    app.connect("sphinx-click-process-options", docstrings.keep_help)
    app.connect("missing-reference", names.resolve)
    app.connect("build-finished", accessible.mend_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Any) -> None:
    """Write everything that is generated, before Sphinx looks for pages, and remove pages of names that are gone."""
    for pages in (python.pages(), commands.pages(), gallery.pages(), outside.pages(gallery.scripts())):
        for path, text in pages.items():
            write(path, text)
        for folder in {path.parent for path in pages} & {python.FOLDER, commands.FOLDER}:
            for path in set(folder.glob("*.rst")) - pages.keys():
                path.unlink()


def write(path: Any, text: str) -> None:
    """Write a page that has changed; one that has not keeps its time, so that it is not read again."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
