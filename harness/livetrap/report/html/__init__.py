"""The report of a database as one HTML file that needs nothing beside it.

There is no template engine: `markup.el` escapes every text where it enters an element, so that escaping is a matter of
types, and a page works wherever livetrap does.
"""

from livetrap.report.html.frame import check_html
from livetrap.report.html.page import render, write_html

__all__ = ["check_html", "render", "write_html"]
