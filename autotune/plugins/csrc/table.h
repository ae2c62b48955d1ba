// The decisions of a tuning table (docs/table.md), from its text. Figures that decide nothing are read past.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "json.h"

namespace autotune::plugin {

constexpr std::size_t kMaxFileBytes = 32u << 20;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 46;

struct Knob {
  std::string name;
  std::variant<std::int64_t, std::string> value;
};

struct Config {
  std::string algorithm;
  std::optional<std::int64_t> segment_bytes;
  std::string codec;
  std::vector<Knob> knobs;  // sorted by name

  const Knob* knob(std::string_view name) const;
};

// For message_bytes in [from_bytes, to_bytes).
struct Rule {
  std::int64_t from_bytes = 0, to_bytes = 0;
  Config config;
  std::string evidence;
  bool is_default = false;
};

struct Key {
  std::string backend, collective, dtype, op_class, memory;  // dtype and op_class are empty where null
  std::int64_t n_ranks = 0;
  std::vector<std::int64_t> placement;
  std::optional<double> max_error;
  std::vector<Rule> rules;  // ascending

  // As str() of a RuleKey in Python: it settles which of several keys a library is given, so it must be the same.
  std::string shown() const;
};

struct Table {
  std::string digest, fingerprint, backend;  // fingerprint is empty for a table of no machine
  std::vector<std::string> host_fingerprints;
  std::vector<Key> keys;

  bool serves(std::string_view machine) const;
};

// Throws Fault: not a table, of another schema version, or decisions that the digest does not cover.
Table parse_table(std::string_view text);

}  // namespace autotune::plugin
