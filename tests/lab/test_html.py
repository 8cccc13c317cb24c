"""What a notebook shows: the numbers of the lab, and no markup of anybody else's."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from kailab.errors import NothingThere
from kailab.lab import Lab
from kailab.lab.answer import Explanation
from kailab.lab.change import Apply
from kailab.model.markup import SHOWN, html_table
from kailab.whatif.alternatives import Alternative, what_if


class Read(HTMLParser):
    """The rows of tables, and every tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


@pytest.fixture
def lent(queue, job):
    with Lab.open() as lab:
        lab.apply(queue("org", 32), queue("team-a", 16, parent="org"), queue("team-b", 16, parent="org"))
        lab.apply(job("a", "team-a", 24))
        lab.settle()
        yield lab


def test_a_lab_shows_its_queues(lent) -> None:
    read = Read(lent._repr_html_())
    assert ["team-a", "org", "16 GPUs", "unlimited", "24 GPUs", "24 GPUs", "8 GPUs", "0 GPUs"] in read.rows
    assert "fleet lesson, scheduler kailab" in read.text


def test_a_queue_shows_where_it_stands_and_its_pods(lent) -> None:
    read = Read(lent.queue("team-a")._repr_html_())
    assert len([row for row in read.rows if row[1:2] == ["Running"]]) == 24
    assert any(row[0] == "team-a" and row[6] == "8 GPUs" for row in read.rows)
    with pytest.raises(NothingThere):
        lent.queue("typo")._repr_html_()


def test_explanations_are_their_own_text(lent) -> None:
    answer = lent.explain_queue("team-a")
    assert str(answer) in Read(answer._repr_html_()).text


def test_what_if_shows_who_gains(lent, job) -> None:
    found = what_if(lent, [Alternative("b comes", (Apply((job("b", "team-b", 12),)),))])
    read = Read(found._repr_html_())
    assert "b comes: " in read.text
    assert any(row[0].endswith("/b") and row[4] == "12" for row in read.rows)


def test_markup_in_texts_is_text() -> None:
    evil = "<script>alert(1)</script>"
    for shown in (html_table(evil, [evil], [[evil]]), Explanation("pod", "p", (evil,))._repr_html_()):
        read = Read(shown)
        assert "script" not in read.tags
        assert evil in read.text


def test_what_is_left_out_is_counted() -> None:
    read = Read(html_table("t", ["n"], [[number] for number in range(SHOWN + 5)]))
    assert len(read.rows) == SHOWN + 2
    assert read.rows[-1] == ["and 5 more"]
