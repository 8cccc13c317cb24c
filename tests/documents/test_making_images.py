"""The script that makes the pictures of the documents makes each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser import WITH_A_BROWSER
from tools.screenshots import ENDING, IMAGES, TARGET, take

pytestmark = WITH_A_BROWSER


def size(path: Path) -> tuple[int, int]:
    """Width and height of a WebP picture in the extended form, as Chromium writes it."""
    content = path.read_bytes()
    assert (content[:4], content[8:16]) == (b"RIFF", b"WEBPVP8X"), path
    width, height = (int.from_bytes(content[at : at + 3], "little") + 1 for at in (24, 27))
    return width, height


def test_the_script_makes_each_picture(browser: Any, tmp_path: Path) -> None:
    made = take(browser, tmp_path)
    assert [path.name for path in made] == [f"{name}{ENDING}" for name in IMAGES]
    for path in made:
        # How high a part of a page is depends on the fonts.
        assert abs(size(path)[0] - size(TARGET / path.name)[0]) <= 40
        assert path.stat().st_size > 5_000
