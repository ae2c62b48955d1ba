// The memory that the ranks of one group share: its layout, its creation, its mapping.
//
// In: a file descriptor and a rank. Out: typed views. The only file that says where things lie; it waits for nobody.
//
//   GroupHeader | RankLine[n] | Header[n][kBanks][kBankLines] | bank[n][kBanks][kBankBytes] | outbox[n][2][half_bytes] |
//   Channel[n][n] | heap[n][heap_bytes]
//
// The heaps are symmetric memory: what ranks allocate together lies at the same offset in each, and every rank reads and
// writes all of them. They are mapped when the first buffer is allocated. The segment is a sealed memfd: it needs no
// /dev/shm, has no name to clean up, and is gone with the last process that maps it. Pages are allocated when they are first written, by the rank that owns them, so what is not used costs
// nothing, and on NUMA hosts an outbox is local to its rank.
//
// In a group over several hosts each host has a segment, laid out for all ranks, and each rank besides a *mirror*: memory
// of its own with the same layout, where it keeps what ranks of other hosts tell it (network.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autotune {

inline constexpr std::uint64_t kMagic = 0x6175746F74756E65;  // "autotune"
inline constexpr std::uint32_t kLayoutVersion = 9;
inline constexpr int kSlots = 32;          // message slots of one call
inline constexpr int kBanks = 40;          // calls whose lines and small messages are apart
inline constexpr int kSynchronisingBanks = 8;  // the first of them: for calls that let nobody run ahead
inline constexpr int kBankLines = kSlots + 2;  // from bank to bank: at a power of two all would share two sets of a cache
inline constexpr std::size_t kBankBytes = 8 << 10;  // what a call's messages may fill in its bank
inline constexpr int kInlineBytes = 56;    // payload that fits into the cache line of its word
inline constexpr int kHistory = 64;        // calls that a rank's line remembers
inline constexpr int kChannelSlots = 4;    // pieces in flight from one rank to another in send/recv
inline constexpr std::size_t kChannelPieceBytes = 64 << 10;
inline constexpr int kMaxRanks = 1024;
// Heaps lie a power of two apart and a bit: at 2^30 exactly, reading one rank's buffer and writing the same place of
// another's was 9 times slower on a Zen 4 (the first-level cache predicts its way from a hash of the address).
inline constexpr std::size_t kHeapSkew = 17 * 4096;
inline constexpr int kSignatureBits = 20;  // of a message's word and of a record's tag; the rest counts waves, or calls
inline constexpr std::uint64_t kSignatureMask = (std::uint64_t{1} << kSignatureBits) - 1;

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

// One call as its rank made it: what the others are compared with, and read, in the slow path only. `tag` is written
// last and read first and last, so that a reader knows whether it saw one whole record.
struct alignas(64) CallRecord {
  Word tag;        // call number << 20 | chain of signatures up to this call
  Word count;      // elements
  Word segment;    // bytes
  Word what;       // collective | dtype << 8 | op << 16 | single copy << 23 | knobs << 24 | zero copy << 29 | in place << 30 | streamed outbox << 31 | root << 32
  Word codec;           // 0 for none, or 1 + CodecKind
  Word codec_parameter;  // the bits of a double
  Word algorithm[4];  // name, zero padded
  Word input_place;   // 1 + offset in symmetric memory where peers use the buffer; else 0
  Word output_place;
};

// One message of one rank: the word tells that it is there, small payloads travel in the same line.
struct alignas(64) Header {
  Word word;
  char payload[kInlineBytes];
};
static_assert(sizeof(Header) == 64);

enum class Presence : std::uint32_t { Absent, Joined, Left };

// What a rank shows to the others. The clock has a line of its own: it is polled.
struct alignas(128) RankLine {
  Word clock;  // waves this rank has finished, over all its calls
  char pad0[120];
  std::atomic<std::uint32_t> sleepers;  // ranks that sleep until this rank's bell rings
  std::atomic<std::uint32_t> bell;
  std::atomic<std::uint32_t> presence;
  std::atomic<std::int32_t> pid;
  Word probe;   // address of a word in its process that the others try to read
  Word probed;  // 0 until it has tried theirs; then 1, or (rank + 1) << 32 | errno of one that it cannot read
  std::atomic<std::int32_t> core;  // 1 + where it ran when it last waited; 0 where nobody knows
  std::atomic<std::int32_t> only_core;  // 1 + the one on which it may run; 0 where there are several
  char pad1[88];
  alignas(128) Word handed;  // a line that goes from its owner to whoever reads its messages and back: how long that takes
  alignas(128) CallRecord history[kHistory];
};

struct alignas(64) ChannelHeader {
  Word word;          // piece number << 20 | signature
  Word message_bytes;
  Word what;          // dtype
  char pad[40];
};

// A queue from one rank to another, for send and recv, apart from the group's calls.
struct alignas(4096) Channel {
  Word received;  // pieces that the receiver has taken
  char pad[56];
  ChannelHeader headers[kChannelSlots];
  alignas(4096) char pieces[kChannelSlots][kChannelPieceBytes];
};

inline constexpr int kReportBytes = 2048;

struct GroupHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t n_ranks;
  std::uint64_t half_bytes;
  std::uint64_t rotation_bytes;  // of a half, that messages go round; here, since ranks' CPUs may say different things
  std::uint64_t heap_bytes;    // of one rank
  std::uint64_t total_bytes;
  alignas(64) std::atomic<std::uint32_t> broken;  // 0, or 1 while the report is written, or 2: the group is unusable
  std::int32_t reporter;
  char report[kReportBytes];   // the first failure, as every rank tells it
  char remedy[kReportBytes];
};

class Segment {
 public:
  // A new segment for n ranks. staging_bytes bounds what one rank's outbox may fill, symmetric_bytes what it may allocate
  // in symmetric memory; neither takes memory before it is used. Returns a descriptor that the caller owns and hands to
  // the ranks. Throws Failure.
  static int create(int n_ranks, std::size_t staging_bytes, std::size_t symmetric_bytes);

  // Maps the segment behind fd (the descriptor stays the caller's). Throws Failure if it is not one of ours. `remote`: by
  // rank, whether it is on another host and so has its place in the mirror; empty where none is.
  explicit Segment(int fd, const std::vector<bool>& remote = {});
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int n_ranks() const { return static_cast<int>(group().n_ranks); }
  std::size_t half_bytes() const { return half_bytes_; }
  std::size_t rotation_bytes() const { return std::min<std::size_t>(group().rotation_bytes, half_bytes_); }
  GroupHeader& group() const { return *reinterpret_cast<GroupHeader*>(base_); }
  RankLine& line(int rank) const { return reinterpret_cast<RankLine*>(base_of(rank) + lines_at_)[rank]; }
  Header* headers(int rank, int bank) const {
    return reinterpret_cast<Header*>(base_of(rank) + headers_at_) + (rank * kBanks + bank) * kBankLines;
  }
  char* bank(int rank, int bank) const {
    return base_of(rank) + banks_at_ + static_cast<std::size_t>(rank * kBanks + bank) * kBankBytes;
  }
  char* outbox(int rank, int half) const {
    return base_of(rank) + outboxes_at_ + static_cast<std::size_t>(rank * 2 + half) * half_bytes_;
  }
  std::size_t heap_bytes() const { return heap_bytes_; }
  bool has_heap() const { return heaps_ != nullptr; }
  char* heap(int rank) const { return heaps_ + static_cast<std::size_t>(rank) * (heap_bytes_ + kHeapSkew); }
  // Maps the heaps of all ranks, once. Throws Failure where the address space does not hold them.
  void map_heaps();
  // Gives the pages of a part of a rank's heap back to the system; they read as zeros then. Throws Failure.
  void forget(int rank, std::size_t offset, std::size_t bytes);
  // In the mirror if one of the two is on another host.
  Channel& channel(int from, int to) const {
    char* const base = base_of(from) == base_ ? base_of(to) : base_of(from);
    return reinterpret_cast<Channel*>(base + channels_at_)[static_cast<std::size_t>(from) * n_ranks() + to];
  }
  // Makes this the group's first report of a failure, unless there is one. Returns whether it is.
  bool report(int reporter, const std::string& message, const std::string& remedy);

 private:
  char* base_of(int rank) const { return bases_[static_cast<std::size_t>(rank)]; }

  int fd_;  // kept for the heaps
  char* base_;
  std::size_t mapped_bytes_;
  std::size_t heaps_at_;
  std::size_t heap_bytes_;
  char* heaps_ = nullptr;
  std::size_t half_bytes_;
  std::size_t lines_at_, headers_at_, banks_at_, outboxes_at_, channels_at_;
  char* mirror_ = nullptr;
  std::vector<char*> bases_;  // by rank: where the segment that has its part begins
};

}  // namespace autotune
