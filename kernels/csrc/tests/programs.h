// The programs that write_programs.py wrote, by what they do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "group.h"
#include "program.h"

namespace autotune::test {

// How a program exchanges blocks. InPlace is zero copy too; Encoded is staged, for calls with a codec.
enum class Exchange { Staged, ZeroCopy, InPlace, Encoded, SingleCopy };

inline bool shares_buffers(Exchange exchange) {
  return exchange == Exchange::ZeroCopy || exchange == Exchange::InPlace;
}

// One algorithm of a collective over n ranks with a root, on the hosts given: a program for each rank.
struct Algorithm {
  Collective collective;
  std::string name;
  int n;
  int root;
  Exchange exchange;
  std::string hosts;  // ranks of each, such as 2,1; 1 for all on one
  std::vector<std::vector<std::int64_t>> words;  // by rank
  std::vector<std::shared_ptr<const Program>> programs;
};

using Programs = std::vector<Algorithm>;

Programs read_programs(const char* path);

// The only one with these properties.
const Algorithm& find(const Programs& programs, Collective collective, const std::string& name, int n, int root = 0,
                      Exchange exchange = Exchange::Staged, const std::string& hosts = "1");

// What a rank needs to know to make a call; equal on all ranks unless a test wants it otherwise.
struct Arguments {
  DType dtype = DType::Float32;
  Op op = Op::Sum;
  std::size_t count = 0;
  std::size_t segment_bytes = 4096;
  int in_flight = 4;
  bool stream = false;
  Outbox outbox = Outbox::Learnt;
};

// Encoded programs get threshold(0), which drops only zeros: results stay exact.
Call make_call(const Algorithm& algorithm, int rank, const Arguments& arguments, std::size_t half_bytes);

}  // namespace autotune::test
