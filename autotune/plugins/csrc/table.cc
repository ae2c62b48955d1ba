// See table.h. What is checked is what autotune.table.decode checks of decisions; canonical.cc makes the digest.
#include "table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "canonical.h"

namespace autotune::plugin {
namespace {

constexpr std::int64_t kSchemaVersion = 1;
constexpr std::int64_t kMaxRanks = std::int64_t{1} << 31;
constexpr std::int64_t kMaxWhole = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kNameLimit = 64;

using Allowed = std::span<const std::string_view>;
constexpr std::string_view kCollectives[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                             "reduce",     "scatter",    "gather",         "all_to_all"};
constexpr std::string_view kTypes[] = {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"};
constexpr std::string_view kOperations[] = {"sum", "minmax", "prod"};
constexpr std::string_view kMemories[] = {"private", "symmetric"};
constexpr std::string_view kSpreads[] = {"one_host", "one_each", "shared", "even"};
constexpr std::string_view kEvidence[] = {"measured", "simulated", "imported"};

std::string word(Json& json, Allowed allowed) {
  const std::string found = json.text();
  if (std::find(allowed.begin(), allowed.end(), found) == allowed.end()) json.fail("not an allowed word: " + found.substr(0, 40));
  return found;
}

std::string word_or_null(Json& json, Allowed allowed) { return json.null() ? std::string() : word(json, allowed); }

std::string fingerprint(Json& json) {
  const std::string found = json.text();
  const bool good = found.size() == 16 && found.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!good) json.fail("not a fingerprint");
  return found;
}

void number_or_null(Json& json) {
  if (!json.null()) json.number();
}

Config config(Json& json) {
  Config found;
  json.object({"algorithm", "segment_bytes", "codec", "knobs"}, [&](std::string_view name) {
    if (name == "algorithm") found.algorithm = json.text();
    else if (name == "codec") found.codec = json.text();
    else if (name == "segment_bytes") {
      if (!json.null()) found.segment_bytes = json.whole(1, kMaxBytes);
    } else {
      json.entries([&](const std::string& knob) {
        if (json.comes_text()) found.knobs.push_back({knob, json.text()});
        else found.knobs.push_back({knob, json.whole(-kMaxWhole, kMaxWhole)});
      });
    }
  });
  const auto is_start = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  const auto length = std::count_if(found.algorithm.begin(), found.algorithm.end(), is_start);
  if (length < 1 || length > static_cast<std::ptrdiff_t>(kNameLimit)) json.fail("an algorithm has 1 to 64 characters");
  std::sort(found.knobs.begin(), found.knobs.end(), [](const Knob& a, const Knob& b) { return a.name < b.name; });
  return found;
}

Rule rule(Json& json) {
  Rule found;
  json.object({"from_bytes", "to_bytes", "config", "evidence", "is_default", "n_rounds", "median_us", "low_us", "high_us",
               "gain", "gain_low", "gain_high", "ring_gain", "trial_ids"},
              [&](std::string_view name) {
                if (name == "from_bytes") found.from_bytes = json.whole(0, kMaxBytes);
                else if (name == "to_bytes") found.to_bytes = json.whole(1, kMaxBytes + 1);
                else if (name == "config") found.config = config(json);
                else if (name == "evidence") found.evidence = word(json, kEvidence);
                else if (name == "is_default") found.is_default = json.truth();
                else if (name == "n_rounds") json.whole(1, kMaxWhole);
                else if (name == "trial_ids") json.array([&] { json.whole(0, kMaxWhole); });
                else if (name == "median_us" || name == "low_us" || name == "high_us") json.number();
                else number_or_null(json);
              });
  if (found.from_bytes >= found.to_bytes) json.fail("an empty range of sizes");
  return found;
}

void check(const Json& json, const Key& key) {
  const bool computes = key.collective == "all_reduce" || key.collective == "reduce_scatter" || key.collective == "reduce";
  if (computes == key.dtype.empty() || computes == key.op_class.empty())
    json.fail("dtype and op_class are given exactly where elements are combined");
  std::int64_t sum = 0;
  for (const std::int64_t ranks : key.placement) sum = std::min(sum + ranks, kMaxRanks + 1);
  if (sum != key.n_ranks || !std::is_sorted(key.placement.begin(), key.placement.end())) json.fail("not a placement of the ranks");
  if (key.max_error && !(*key.max_error > 0.0)) json.fail("max_error is not above 0");
  if (key.rules.empty()) json.fail("a key without rules");
  for (std::size_t i = 0; i < key.rules.size(); ++i) {
    if (i > 0 && key.rules[i - 1].to_bytes != key.rules[i].from_bytes) json.fail("a gap or an overlap between sizes");
    if (!key.max_error && key.rules[i].config.codec != "none") json.fail("a lossy config needs a key with an error budget");
  }
}

Key key(Json& json) {
  Key found;
  json.object({"backend", "collective", "dtype", "op_class", "n_ranks", "placement", "memory", "max_error", "sizes"},
              [&](std::string_view name) {
                if (name == "backend") found.backend = json.text();
                else if (name == "collective") found.collective = word(json, kCollectives);
                else if (name == "dtype") found.dtype = word_or_null(json, kTypes);
                else if (name == "op_class") found.op_class = word_or_null(json, kOperations);
                else if (name == "n_ranks") found.n_ranks = json.whole(1, kMaxRanks);
                else if (name == "placement") json.array([&] { found.placement.push_back(json.whole(1, kMaxRanks)); });
                else if (name == "memory") found.memory = word(json, kMemories);
                else if (name == "sizes") json.array([&] { found.rules.push_back(rule(json)); });
                else if (!json.null()) found.max_error = json.number();
              });
  check(json, found);
  return found;
}

DefaultRow row(Json& json) {
  DefaultRow found;
  json.object({"collective", "ranks_from", "ranks_to", "from_bytes", "config"},
              [&](std::string_view name) {
                if (name == "collective") found.collective = word(json, kCollectives);
                else if (name == "ranks_from") found.ranks_from = json.whole(1, kMaxRanks);
                else if (name == "from_bytes") found.from_bytes = json.whole(0, kMaxBytes);
                else if (name == "config") found.config = config(json);
                else if (name == "memory") found.memory = word(json, kMemories);
                else if (name == "spread") found.spread = word(json, kSpreads);
                else if (!json.null()) found.ranks_to = json.whole(2, kMaxRanks);
              },
              {"memory", "spread"});
  if (found.config.codec != "none") json.fail("a default is lossy");
  if (found.memory != "private" && found.spread != "one_host") json.fail("symmetric memory does not reach over hosts");
  return found;
}

}  // namespace

const Knob* Config::knob(std::string_view name) const {
  const auto found = std::find_if(knobs.begin(), knobs.end(), [&](const Knob& knob) { return knob.name == name; });
  return found == knobs.end() ? nullptr : &*found;
}

std::string Key::shown() const {
  std::string text = collective;
  if (!dtype.empty()) text += " " + dtype + " " + op_class;
  text += ", " + std::to_string(n_ranks) + " ranks";
  for (std::size_t i = 0; placement.size() > 1 && i < placement.size(); ++i)
    text += (i == 0 ? " as " : "+") + std::to_string(placement[i]);
  return text + " (" + backend + ")";  // memory and error: keys that differ in those are never compared
}

bool Table::serves(std::string_view machine) const {
  return fingerprint == machine ||
         std::find(host_fingerprints.begin(), host_fingerprints.end(), machine) != host_fingerprints.end();
}

Table parse_table(std::string_view text) {
  Json json(text);
  Table table;
  std::vector<DefaultRow> rows;
  json.object({"schema_version", "digest", "fingerprint", "host_fingerprints", "environment", "created_at", "test", "rules",
               "defaults"},
              [&](std::string_view name) {
                if (name == "schema_version") json.whole(kSchemaVersion, kSchemaVersion);
                else if (name == "digest") table.digest = json.text();
                else if (name == "fingerprint") {
                  if (!json.null()) table.fingerprint = fingerprint(json);
                } else if (name == "host_fingerprints") json.array([&] { table.host_fingerprints.push_back(fingerprint(json)); });
                else if (name == "environment") json.entries([&](const std::string&) { json.text(); });
                else if (name == "rules") json.array([&] { table.keys.push_back(key(json)); });
                else if (name == "defaults") {
                  json.object({"backend", "rows"}, [&](std::string_view part) {
                    if (part == "backend") table.backend = json.text();
                    else json.array([&] { rows.push_back(row(json)); });
                  });
                } else json.text();
              });
  json.end();
  std::set<std::string> heads;
  for (const Key& found : table.keys) {
    if (found.backend != table.backend) json.fail("a key of another backend than the defaults'");
    if (!heads.insert(canonical_head(found)).second) json.fail("the rules of a key stand there twice: " + found.shown());
  }
  const std::string digest = digest_of(table, rows);
  if (digest != table.digest)
    throw Fault("the digest is " + table.digest.substr(0, 64) + ", but the decisions give " + digest +
                ": they were changed after the table was written");
  return table;
}

}  // namespace autotune::plugin
