// The table of this process: which file, whether it may be used here, read once. Nothing of it is done for a decision.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "table.h"

namespace autotune::plugin {

struct Loaded {
  std::shared_ptr<const Table> table;  // null: do not intervene
  std::vector<std::string> evidence;   // that counts
  std::string words;                   // for the log: what was loaded, or why nothing was
};

// Reads the environment: AUTOTUNE_TABLE, AUTOTUNE_EVIDENCE, AUTOTUNE_FINGERPRINT, and where probe keeps the host's
// fingerprint. Throws nothing.
Loaded load_table() noexcept;

// As load_table(), but the first answer of this process for all that follow, which may come from several threads.
const Loaded& loaded() noexcept;

}  // namespace autotune::plugin
