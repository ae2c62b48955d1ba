// See canonical.h.
#include "canonical.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "sha256.h"

namespace autotune::plugin {
namespace {

void add_unit(std::string& to, unsigned unit) {
  to += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) to += "0123456789abcdef"[unit >> shift & 15];
}

// `text` is UTF-8 without control characters, as Json gives it.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i++]);
    if (c < 0x80) {
      if (c == '"' || c == '\\') out += '\\';
      out += static_cast<char>(c);
      continue;
    }
    int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
    std::uint32_t value = c & (0x3fu >> more);
    for (; more > 0; --more) value = value << 6 | (static_cast<unsigned char>(text[i++]) & 0x3f);
    if (value < 0x10000) add_unit(out, value);
    else add_unit(out, 0xd800 + ((value - 0x10000) >> 10)), add_unit(out, 0xdc00 + ((value - 0x10000) & 0x3ff));
  }
  return out + "\"";
}

std::string or_null(const std::string& text) { return text.empty() ? "null" : quoted(text); }

std::string or_null(const std::optional<std::int64_t>& value) { return value ? std::to_string(*value) : "null"; }

std::string joined(std::vector<std::string> parts, bool sort) {
  if (sort) std::sort(parts.begin(), parts.end());
  std::string out = "[";
  for (const std::string& part : parts) out += (out.size() > 1 ? "," : "") + part;
  return out + "]";
}

std::string config_text(const Config& config) {
  std::string knobs = "{";
  for (const Knob& knob : config.knobs) {
    if (knobs.size() > 1) knobs += ",";
    const auto* number = std::get_if<std::int64_t>(&knob.value);
    knobs += quoted(knob.name) + ":" + (number ? std::to_string(*number) : quoted(std::get<std::string>(knob.value)));
  }
  return "{\"algorithm\":" + quoted(config.algorithm) + ",\"codec\":" + quoted(config.codec) + ",\"knobs\":" + knobs +
         "},\"segment_bytes\":" + or_null(config.segment_bytes) + "}";
}

std::string rule_text(const Rule& rule) {
  return "{\"config\":" + config_text(rule.config) + ",\"evidence\":" + quoted(rule.evidence) +
         ",\"from_bytes\":" + std::to_string(rule.from_bytes) + ",\"is_default\":" + (rule.is_default ? "true" : "false") +
         ",\"to_bytes\":" + std::to_string(rule.to_bytes) + "}";
}

std::string bits(double value) {
  const auto word = std::bit_cast<std::uint64_t>(value);
  std::string out = "\"";
  for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[word >> shift & 15];
  return out + "\"";
}

std::string row_text(const DefaultRow& row) {
  return "{\"collective\":" + quoted(row.collective) + ",\"config\":" + config_text(row.config) +
         ",\"from_bytes\":" + std::to_string(row.from_bytes) +
         (row.memory == "private" ? "" : ",\"memory\":" + quoted(row.memory)) +
         ",\"ranks_from\":" + std::to_string(row.ranks_from) + ",\"ranks_to\":" + or_null(row.ranks_to) +
         (row.spread == "one_host" ? "" : ",\"spread\":" + quoted(row.spread)) + "}";
}

}  // namespace

std::string canonical_head(const Key& key) {
  std::vector<std::string> placement;
  for (const std::int64_t ranks : key.placement) placement.push_back(std::to_string(ranks));
  return "{\"backend\":" + quoted(key.backend) + ",\"collective\":" + quoted(key.collective) +
         ",\"dtype\":" + or_null(key.dtype) + ",\"max_error\":" + (key.max_error ? bits(*key.max_error) : "null") +
         ",\"memory\":" + quoted(key.memory) + ",\"n_ranks\":" + std::to_string(key.n_ranks) +
         ",\"op_class\":" + or_null(key.op_class) + ",\"placement\":" + joined(placement, false);
}

std::string digest_of(const Table& table, const std::vector<DefaultRow>& rows) {
  std::vector<std::string> keys, defaults;
  for (const Key& key : table.keys) {
    std::vector<std::string> sizes;
    for (const Rule& rule : key.rules) sizes.push_back(rule_text(rule));
    keys.push_back(canonical_head(key) + ",\"sizes\":" + joined(sizes, false) + "}");
  }
  for (const DefaultRow& row : rows) defaults.push_back(row_text(row));
  return sha256_hex("{\"defaults\":{\"backend\":" + quoted(table.backend) + ",\"rows\":" + joined(defaults, true) +
                    "},\"rules\":" + joined(keys, true) + ",\"schema_version\":1}");
}

}  // namespace autotune::plugin
