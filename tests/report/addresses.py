"""What the address of a page says."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def expect_fragment(page: Page, fragment: str) -> None:
    """The address says what is shown, a moment after it is."""
    address = page.url.split("#")[0]
    expect(page).to_have_url(re.compile(re.escape(address + (fragment or "#")) + "$"))
