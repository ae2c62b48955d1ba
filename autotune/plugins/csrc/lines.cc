// See lines.h.
#include "lines.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace autotune::plugin {
namespace {

constexpr std::string_view kLibraryChoice = "auto";  // no line is made for it

template <class Range, class Value>
bool holds(const Range& range, const Value& value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

bool fits(const Key& key, const Words& words, const Shape& shape, const std::vector<std::string>& evidence) {
  const bool seen = key.collective == words.collective && key.n_ranks == shape.n_ranks &&
                    key.placement.size() == shape.n_hosts && key.memory == "private" && !key.max_error;
  // A collective that only moves bytes has no type, and is for all of them.
  const bool of_type = !shape.sees_dtype || key.dtype.empty() || key.dtype == shape.dtype;
  return seen && of_type &&
         std::any_of(key.rules.begin(), key.rules.end(), [&](const Rule& rule) { return holds(evidence, rule.evidence); });
}

// Of the keys that look the same to the library, the first in this order counts: as decisions.py, _preference.
std::tuple<bool, bool, std::string> preference(const Key& key) {
  return {!(key.dtype.empty() || key.dtype == "float32"), !(key.op_class.empty() || key.op_class == "sum"), key.shown()};
}

std::optional<std::string_view> translated(const Key& key, const Config& config, const Library& library, const Words& words) {
  if (config.codec != "none") return std::nullopt;
  if (holds(library.backends, key.backend)) {
    const auto own = std::find(words.own.begin(), words.own.end(), config.algorithm);
    return own == words.own.end() ? std::nullopt : std::optional(*own);
  }
  for (const Pair& pair : words.native)
    if (pair.ours == config.algorithm) return pair.theirs;
  return std::nullopt;
}

std::uint64_t in_units(std::int64_t bytes, std::int64_t unit) { return static_cast<std::uint64_t>((bytes + unit - 1) / unit); }

}  // namespace

std::vector<Line> lines_of(const Table& table, const Library& library, const Words& words, const Shape& shape,
                           const std::vector<std::string>& evidence) {
  const Key* chosen = nullptr;
  for (const Key& key : table.keys)
    if (fits(key, words, shape, evidence) && (!chosen || preference(key) < preference(*chosen))) chosen = &key;
  std::vector<Line> lines;
  if (!chosen) return lines;
  const std::int64_t unit = words.counted == Counted::kPerRank ? chosen->n_ranks : 1;
  for (const Rule& rule : chosen->rules) {
    if (!holds(evidence, rule.evidence) || rule.config.algorithm == kLibraryChoice) continue;
    const std::uint64_t low = in_units(rule.from_bytes, unit), after = in_units(rule.to_bytes, unit);
    const auto word = translated(*chosen, rule.config, library, words);
    if (low < after && word) lines.push_back({low, after - 1, *word, &rule.config});
  }
  return lines;
}

}  // namespace autotune::plugin
