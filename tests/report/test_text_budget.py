"""Texts are cut so that all of them fit, the long ones first."""

from __future__ import annotations

from opal.report.text_budget import cut_texts


def test_short_texts_stay_and_long_ones_share_what_is_left() -> None:
    short, first, second = cut_texts(["a" * 10, "b" * 500, "c" * 900], together=210)
    assert (short.text, short.whole) == ("a" * 10, 0)
    assert (len(first.text), first.whole) == (100, 500)
    assert (len(second.text), second.whole) == (100, 900)


def test_one_text_has_a_limit_of_its_own() -> None:
    (cut,) = cut_texts(["x" * 200_000], largest=1_000)
    assert (len(cut.text), cut.whole) == (1_000, 200_000)


def test_lengths_are_those_of_the_escaped_page() -> None:
    (cut,) = cut_texts(["<" * 1_000], largest=400)
    assert len(cut.text) == 100
    (cut,) = cut_texts(["€" * 1_000], largest=300)
    assert len(cut.text) == 100
    (cut,) = cut_texts(["\n" * 1_000], largest=130)
    assert len(cut.text) == 10


def test_nothing_is_cut_without_need() -> None:
    assert [cut.whole for cut in cut_texts(["a" * 100, "b" * 100], largest=100, together=200)] == [0, 0]
    assert cut_texts([]) == []
