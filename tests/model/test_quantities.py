from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.errors import InputError, Where
from kailab.model import quantities as q

SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "e3": Fraction(1000),
    "E2": Fraction(100),
    "e-2": Fraction(1, 100),
}


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1", 1000),
        ("500m", 500),
        ("1.5", 1500),
        (".5", 500),
        ("2.", 2000),
        ("0", 0),
        (3, 3000),
        (0.1, 100),
        ("1e3", 10**6),
    ],
)
def test_cpu_in_millicores(text, millis):
    assert q.cpu_millis(text) == millis


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1Ki", 1024),
        ("1k", 1000),
        ("1000Gi", 1000 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("128974848", 128974848),
        ("1E", 10**18),
    ],
)
def test_memory_in_bytes(text, size):
    assert q.mem_bytes(text) == size


def test_parts_of_a_unit_are_rounded_up_as_in_kubernetes():
    assert q.cpu_millis("1u") == 1
    assert q.cpu_millis("1.0001") == 1001
    assert q.mem_bytes("1m") == 1


def test_no_float_error_where_kai_has_one():
    assert q.queue_gpu(0.1) + q.queue_gpu(0.2) == q.queue_gpu(0.3)


@pytest.mark.parametrize(
    "bad",
    ["", " 1", "1 ", "one", "1.2.3", "0x10", "1KB", "1ki", "--1", "1e", "NaN", "inf", "1_000", "١", "1" * 65,
     float("nan"), float("inf"), True, None, [], {}, b"1"],
)  # fmt: skip
def test_what_is_no_quantity_is_refused(bad):
    with pytest.raises(InputError, match="expected a quantity"):
        q.parse(bad)


@pytest.mark.parametrize("absurd", ["1e99", 1e99, 2**63, "9223372036854775808", "10E", "1e999"])
def test_absurd_values_are_refused(absurd):
    with pytest.raises(InputError, match="too large"):
        q.mem_bytes(absurd)


def test_the_limit_is_of_the_unit():
    assert q.mem_bytes("9223372036854775807") == 2**63 - 1
    with pytest.raises(InputError, match="too large"):
        q.cpu_millis("9223372036854775807")


@pytest.mark.parametrize("negative", ["-1", -1, -0.5, "-1Ki"])
def test_negative_values_are_refused_and_the_place_is_named(negative):
    with pytest.raises(InputError, match=r"q.yaml:3: spec.x: .* is negative"):
        q.cpu_millis(negative, Where(file="q.yaml", line=3, field="spec.x"))


def test_counts_are_whole():
    assert q.whole_amount("8") == 8
    assert q.whole_amount("2000m") == 2
    with pytest.raises(InputError, match="whole number"):
        q.whole_amount("0.5")


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0.5", 500),
        ("0.333", 333),
        ("0.0001", 1),
        ("0.99999", 999),
        (0.25, 250),
        (".5", 500),
        ("+5e-1", 500),
        ("1E-300", 1),
    ],
)
def test_shares_of_one_gpu(text, milli):
    assert q.fraction_milli(text) == milli


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "1",
        "1.5",
        "-0.5",
        "500m",
        "0.5Ki",
        "1e-400",
        "0.99999999999999999999",
        "NaN",
        "inf",
        "0.5 ",
        "0_1e-1",
        "٠.٥",
        "",
        ".",
    ],
)
def test_a_share_is_a_decimal_of_more_than_nothing_and_less_than_all(text):
    """As Go's ParseFloat reads it: no suffix, and what is too small, or too near to 1, for a float is 0 or 1."""
    with pytest.raises(InputError, match=r"expected a decimal number of more than 0 and less than 1, such as 0\.5"):
        q.fraction_milli(text)


def test_queue_amounts_keep_unlimited():
    assert (q.queue_gpu(-1), q.queue_cpu(-1.0), q.queue_memory(-1)) == (-1, -1, -1)
    assert (q.queue_gpu(2.5), q.queue_cpu(500), q.queue_memory(3)) == (2500, 500, 3_000_000)
    with pytest.raises(InputError, match="-1 for unlimited"):
        q.queue_gpu(-2)


@given(
    whole=st.integers(0, 10**6), decimals=st.text("0123456789", max_size=6), suffix=st.sampled_from(sorted(SUFFIXES))
)
def test_parsing_is_exact(whole, decimals, suffix):
    text = f"{whole}.{decimals}{suffix}" if decimals else f"{whole}{suffix}"
    exact = (whole + Fraction(int(decimals or 0), 10 ** len(decimals))) * SUFFIXES[suffix]
    if exact <= 2**63 - 1:
        assert q.parse(text) == exact
        assert 0 <= q.mem_bytes(text) - exact < 1


@given(st.integers(0, 2**63 - 1))
def test_bytes_round_trip(number):
    assert q.mem_bytes(q.format_bytes(number)) == number


@given(st.integers(0, (2**63 - 1) // 1000))
def test_millis_round_trip(number):
    assert q.cpu_millis(q.format_cpu(number)) == number


@given(st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.none(), st.binary()))
def test_anything_gives_a_value_or_an_input_error(value):
    for read in (
        q.parse,
        q.cpu_millis,
        q.mem_bytes,
        q.whole_amount,
        q.fraction_milli,
        q.queue_gpu,
        q.queue_memory,
    ):
        with contextlib.suppress(InputError):
            assert read(value) >= -1


def test_formats_are_the_short_ones():
    assert q.format_bytes(1000 * 2**30) == "1000Gi"
    assert q.format_bytes(1001) == "1001"
    assert q.format_bytes(0) == "0"
    assert q.format_cpu(1500) == "1500m"
    assert [q.format_gpu(n) for n in (500, 1000, 10_000, 1, 0, -1)] == ["0.5", "1", "10", "0.001", "0", "-1"]
