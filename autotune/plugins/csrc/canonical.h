// The digest of a table: sha256 over its decisions in the canonical form of docs/table.md, as autotune.table.canonical.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "table.h"

namespace autotune::plugin {

// Counts for the digest and is looked at nowhere else: without a rule a plugin does not intervene.
struct DefaultRow {
  std::string collective, memory = "private", spread = "one_host";
  std::int64_t ranks_from = 0, from_bytes = 0;
  std::optional<std::int64_t> ranks_to;
  Config config;
};

// A key without its rules: equal for keys that are equal.
std::string canonical_head(const Key& key);
std::string digest_of(const Table& table, const std::vector<DefaultRow>& rows);

}  // namespace autotune::plugin
