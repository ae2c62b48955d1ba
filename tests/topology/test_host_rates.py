"""Which hosts stand last because their links are slow, and what a host keeps of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.errors import ProbeError
from autotune.topology.host_rates import keep_rate, kept_rate, late_hosts, late_words


def test_hosts_are_compared_in_halvings_with_the_median() -> None:
    assert late_hosts([0.12, 0.024, 0.12, 0.115]) == {1: 2}
    assert late_words(["hosta", "hostb", "hostc", "hostd"], {1: 2}) == "hostb (about 1/4 of the usual rate)"


def test_the_slowest_comes_last_and_equal_ones_keep_their_order() -> None:
    assert list(late_hosts([0.01, 0.05, 0.05, 0.12, 0.12, 0.12, 0.12])) == [1, 2, 0]


def test_what_noise_does_to_equal_links_moves_no_host() -> None:
    assert late_hosts([0.12, 0.09, 0.11, 0.13]) == {}


def test_one_fast_host_makes_the_others_not_slow() -> None:
    assert late_hosts([10.0, 0.12, 0.12, 0.12]) == {}


@pytest.mark.parametrize("rates", [[], [0.1], [0.1, 0.01], [0.1, None, 0.01]], ids=str)
def test_of_a_pair_of_hosts_neither_is_the_slow_one(rates: list[float | None]) -> None:
    assert late_hosts(rates) == {}


def test_hosts_that_nobody_measured_are_as_the_others() -> None:
    assert late_hosts([0.12, None, 0.01, 0.12]) == {2: 4}


def test_each_host_finds_its_own_rate(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert kept_rate(cache, "a") is None
    keep_rate(cache, "a", 0.5)
    keep_rate(cache, "b", 0.25)
    keep_rate(cache, "a", 0.125)
    assert (kept_rate(cache, "a"), kept_rate(cache, "b"), kept_rate(cache, "c")) == (0.125, 0.25, None)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert len(list(cache.iterdir())) == 2
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in cache.iterdir())


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema_version": 1}', "9" * 9999, '{"gb_per_s": 1.0}'], ids=len)
def test_a_damaged_file_counts_as_none(tmp_path: Path, text: str) -> None:
    keep_rate(tmp_path, "a", 0.5)
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    assert kept_rate(tmp_path, "a") is None


@pytest.mark.parametrize("rate", ["-1.0", "0.0", "Infinity", "NaN", '"1.0"', "null", "true"])
def test_a_rate_that_is_none_is_not_believed(tmp_path: Path, rate: str) -> None:
    keep_rate(tmp_path, "a", 0.5)
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace("0.5", rate))
    assert kept_rate(tmp_path, "a") is None


def test_a_folder_that_cannot_be_made_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProbeError, match="cannot be kept") as raised:
        keep_rate(tmp_path / "file" / "cache", "a", 0.5)
    assert "AUTOTUNE_CACHE_DIR" in raised.value.remedy
