// What ranks disagree in, and what they were doing: the slow path of the comparison that every wait makes.
//
// In: the records of calls in the segment. Out: words for people. Sees no payload.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "group.h"

namespace autotune {
namespace {

const char* const kCollectiveNames[kCollectives] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                                    "reduce",     "scatter",    "gather",         "all_to_all"};
const char* const kCodecNames[kCodecKinds] = {"threshold", "threshold_abs", "int8", "int4"};
const char* const kOpNames[kOps] = {"sum", "prod", "max", "min", "avg"};
constexpr std::uint64_t kLookBack = kHistory - kBanks - 2;  // a peer is at most kBanks calls ahead, so these are whole

}  // namespace

// Ends the group's use if `source` has made this call, and this one or an earlier one differed. An earlier one may have
// gone unseen, since neither waited for the other (two roots of one broadcast).
void Group::compare_with(int source) {
  const std::uint64_t tag = segment_.line(source).history[call_ % kHistory].tag.load(std::memory_order_acquire);
  if (tag >> kSignatureBits != call_) return;
  const bool alike = (tag & kSignatureMask) == chain_;
  if (alike && !check_) return;
  const int low = std::min(rank_, source), high = std::max(rank_, source);
  const std::string who = "ranks " + std::to_string(low) + " and " + std::to_string(high) + " disagree at call ";
  const char* const remedy = "make the same calls in the same order, with the same arguments and table, on every rank";
  const std::uint64_t oldest = alike ? call_ : call_ > kLookBack ? call_ - kLookBack : 1;
  for (std::uint64_t number = oldest; number <= call_; number++) {
    const std::string fields = differences(number, source);
    if (!fields.empty())
      waiting_.fail(who + std::to_string(number) + " in: " + fields + ". " + describe(low, number) + "; " +
                        describe(high, number),
                    remedy);
  }
  if (!alike) waiting_.fail(who + std::to_string(oldest) + " or before", remedy);
}

// The fields in which this rank's and another's records of a call differ; empty if they do not, or are gone.
std::string Group::differences(std::uint64_t number, int source) const {
  const CallRecord& mine = segment_.line(rank_).history[number % kHistory];
  const CallRecord& theirs = segment_.line(source).history[number % kHistory];
  const std::uint64_t tag = theirs.tag.load(std::memory_order_acquire);
  if (tag >> kSignatureBits != number) return "";
  const std::uint64_t differing = theirs.what.load(std::memory_order_acquire) ^ mine.what.load();
  const bool count = theirs.count.load(std::memory_order_acquire) != mine.count.load();
  const bool segment = theirs.segment.load(std::memory_order_acquire) != mine.segment.load();
  const bool codec = theirs.codec.load(std::memory_order_acquire) != mine.codec.load() ||
                     theirs.codec_parameter.load(std::memory_order_acquire) != mine.codec_parameter.load();
  const bool place = theirs.input_place.load(std::memory_order_acquire) != mine.input_place.load() ||
                     theirs.output_place.load(std::memory_order_acquire) != mine.output_place.load();
  bool algorithm = false;
  for (int i = 0; i < 4; i++)
    algorithm |= theirs.algorithm[i].load(std::memory_order_acquire) != mine.algorithm[i].load();
  if (theirs.tag.load(std::memory_order_relaxed) != tag) return "";  // it has gone on: the record is of a later call
  std::string fields;
  const auto name = [&](const char* field, bool differs) {
    if (differs) fields += (fields.empty() ? "" : ", ") + std::string(field);
  };
  name("collective", (differing & 0xFF) != 0);
  name("dtype", (differing >> 8 & 0xFF) != 0);
  name("op", (differing >> 16 & 0x7F) != 0);
  name("root", differing >> 32 != 0);
  name("count", count);
  name("segment_bytes", segment);
  name("algorithm", algorithm);
  name("codec", codec);
  name("knobs", (differing >> 24 & 0x9F) != 0);
  name("exchange", (differing >> 29 & 1) != 0 || (differing >> 23 & 1) != 0);
  name("in place or not", (differing >> 30 & 1) != 0);
  name("place in symmetric memory", place && (differing >> 29 & 3) == 0);
  return fields;
}

std::string Group::describe(int rank, std::uint64_t call_number) const {
  const CallRecord& record = segment_.line(rank).history[call_number % kHistory];
  std::string text = "rank " + std::to_string(rank);
  if (record.tag.load(std::memory_order_acquire) >> kSignatureBits != call_number) return text;
  const std::uint64_t what = record.what.load(std::memory_order_relaxed);
  const auto collective = static_cast<std::size_t>(what & 0xFF);
  if (collective >= kCollectives || (what >> 8 & 0xFF) >= kDTypes || (what >> 16 & 0x7F) >= kOps) return text;
  char name[33] = {};
  for (int i = 0; i < 4; i++) {
    const std::uint64_t part = record.algorithm[i].load(std::memory_order_relaxed);
    std::memcpy(name + 8 * i, &part, 8);
  }
  text += std::string(": ") + kCollectiveNames[collective] + "(count=" + std::to_string(record.count.load()) +
          ", dtype=" + name_of(static_cast<DType>(what >> 8 & 0xFF));
  const auto kind = static_cast<Collective>(collective);
  if (kind == Collective::AllReduce || kind == Collective::ReduceScatter || kind == Collective::Reduce)
    text += std::string(", op=") + kOpNames[what >> 16 & 0x7F];
  if (kind == Collective::Broadcast || kind == Collective::Reduce || kind == Collective::Scatter ||
      kind == Collective::Gather)
    text += ", root=" + std::to_string(what >> 32);
  text += std::string(") by ") + name + "/" + std::to_string(record.segment.load());
  const std::uint64_t codec = record.codec.load(std::memory_order_relaxed);
  if (codec == 0 || codec > kCodecKinds) return text;
  text += std::string("/") + kCodecNames[codec - 1];
  const std::uint64_t bits = record.codec_parameter.load(std::memory_order_relaxed);
  if (codec - 1 > static_cast<std::uint64_t>(CodecKind::ThresholdAbs)) return text;
  double parameter = 0;
  std::memcpy(&parameter, &bits, sizeof parameter);
  char digits[32];
  std::snprintf(digits, sizeof digits, "(%g)", parameter);
  return text + digits;
}

// How many calls each rank has made, for time-outs: the one that is behind is the one to look at.
std::string Group::call_counts() const {
  std::string text = " (calls made:";
  for (int rank = 0; rank < n_ranks(); rank++) {
    std::uint64_t latest = 0;
    for (const CallRecord& record : segment_.line(rank).history)
      latest = std::max(latest, record.tag.load(std::memory_order_relaxed) >> kSignatureBits);
    // Of a rank on another host only what it told this one is known.
    text += std::string(rank ? ", " : " ") + waiting_.name_of(rank) + " " +
            (latest || !remote(rank) ? std::to_string(latest) : "unknown");
  }
  return text + ")";
}

}  // namespace autotune
