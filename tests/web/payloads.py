"""Texts that would run a script if any of them were ever taken for HTML, a URL or code."""

from __future__ import annotations

from itertools import islice, product

RUN = "window.__ran=1"

_VECTORS = [
    "<script>{run}</script>",
    "<ScRiPt>{run}</sCrIpT>",
    "<img src=x onerror={run}>",
    "<img/src='x'/onerror='{run}'>",
    "<svg onload={run}>",
    "<svg><script>{run}</script></svg>",
    "<svg><animate onbegin={run} attributeName=x dur=1s>",
    "<body onload={run}>",
    "<details open ontoggle={run}>",
    "<iframe srcdoc='<script>parent.{run}</script>'>",
    "<iframe src=javascript:{run}>",
    "<a href=javascript:{run}>x</a>",
    "<input autofocus onfocus={run}>",
    "<video><source onerror={run}>",
    "<math><mtext><table><mglyph><style><img src=x onerror={run}>",
    "<object data=javascript:{run}>",
    "<link rel=stylesheet href=javascript:{run}>",
    "<meta http-equiv=refresh content='0;url=javascript:{run}'>",
    "<form action=javascript:{run}><button autofocus>x</form>",
    "<style>@import 'javascript:{run}'</style>",
    "javascript:{run}//",
    "[click](javascript:{run})",
    "![x](x onerror={run})",
    "{{{{constructor.constructor('{run}')()}}}}",
    "${{{run}}}",
]
_WRAPPERS = [
    "{x}",
    "'>{x}",
    '">{x}',
    "</script>{x}",
    "</textarea>{x}",
    "-->{x}",
    "]]>{x}",
    "</title></style>{x}",
    "\\u003c!--{x}",
    "&lt;{x}",
    "';{run};//{x}",
    "`{x}`",
]


def payloads(many: int = 300) -> list[str]:
    """Give so many of them, each a text of its own."""
    made = (
        wrapper.format(x=vector.format(run=RUN), run=RUN)
        for wrapper, vector in product(_WRAPPERS, _VECTORS)
    )
    found = list(islice(made, many))
    assert len({*found}) == many
    return found
