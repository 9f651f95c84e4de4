"""Formulas as MathML, which browsers draw by themselves: nothing is loaded, and screen readers read it."""

from typing import Any

from docutils import nodes


def write_inline(writer: Any, node: nodes.math) -> None:
    """A formula in a sentence."""
    writer.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def write_block(writer: Any, node: nodes.math_block) -> None:
    """A formula on a line of its own, which scrolls where a page is narrow."""
    writer.body.append(f'<div class="formula" tabindex="0">{_mathml(node, "block")}</div>')
    raise nodes.SkipNode


def _mathml(node: nodes.Node, display: str) -> str:
    from latex2mathml.converter import convert  # noqa: PLC0415 (only a site with formulas needs it)

    return str(convert(node.astext(), display=display))
