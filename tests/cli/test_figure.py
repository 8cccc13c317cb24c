"""``kailab metrics figure``: a file, or why there is none."""

from __future__ import annotations

from pathlib import Path


def test_use_over_time_is_drawn(busy, home: Path) -> None:
    assert busy("run", "--for", "1m").code == 0
    done = busy("metrics", "figure", "use.svg")
    assert (done.code, done.out) == (0, "use.svg written\n")
    assert "<svg" in (home / "use.svg").read_text()


def test_bad_names_are_refused(busy, home: Path) -> None:
    done = busy("metrics", "figure", "use.gif")
    assert done.code == 2
    assert "use.gif: expected a name that ends in .png, .svg, .pdf" in done.err
    assert busy("metrics", "figure", "nowhere/use.png").code == 2
    assert busy("metrics", "figure", "use.png", "--evidence", "no/such").code == 2
    assert not (home / "use.png").exists()
