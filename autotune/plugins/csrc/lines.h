// A table's rules in a library's own words, for one shape of communicator: what the exporters write to files (autotune
// exchange, decisions.py), made once when the communicator is, so that a decision is one search in a sorted array.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "table.h"

namespace autotune::plugin {

// What a library's number of bytes is: our message_bytes, or one rank's part of it.
enum class Counted { kMessage, kPerRank };

struct Pair {
  std::string_view ours, theirs;
};

// One collective as a library names it; words.h holds them all.
struct Words {
  std::string_view collective;
  Counted counted;
  std::span<const std::string_view> own;  // the library's algorithms
  std::span<const Pair> native;           // the field's names, and the library's
};

struct Library {
  std::span<const std::string_view> backends;  // whose configs carry the library's own names
  std::span<const Words> words;
};

// What a library knows of a communicator and a call. Nothing here may differ between the ranks of one communicator: two
// ranks that chose differently would wait for each other for ever.
struct Shape {
  std::int64_t n_ranks = 0;
  std::size_t n_hosts = 0;
  std::string_view dtype;  // of our words; empty: the library cannot tell element types apart
  bool sees_dtype = false;
};

// What a library is to do for sizes from low to high, both inclusive, as it counts them.
struct Line {
  std::uint64_t low, high;
  std::string_view word;  // of `own` or `native`, or the table's text: lives as long as the table
  const Config* config;
};

// The lines for one collective, ascending and disjoint; those on other evidence than admitted are left out.
std::vector<Line> lines_of(const Table& table, const Library& library, const Words& words, const Shape& shape,
                           const std::vector<std::string>& evidence);

// The one of ascending, disjoint ranges (`low` to `high`, both inclusive) that holds a size, or null.
template <class Range>
const Range* find(const std::vector<Range>& ranges, std::uint64_t bytes) {
  std::size_t first = 0, after = ranges.size();
  while (first < after) {
    const std::size_t middle = (first + after) / 2;
    if (ranges[middle].high < bytes) first = middle + 1;
    else after = middle;
  }
  return first < ranges.size() && ranges[first].low <= bytes ? &ranges[first] : nullptr;
}

}  // namespace autotune::plugin
