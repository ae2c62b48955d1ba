// See programs.h.
#include "programs.h"

#include <fstream>
#include <optional>
#include <sstream>

#include "check.h"

namespace autotune::test {

namespace {

Exchange exchange_named(const std::string& word) {
  if (word == "zero_copy") return Exchange::ZeroCopy;
  if (word == "in_place") return Exchange::InPlace;
  if (word == "encoded") return Exchange::Encoded;
  if (word == "single_copy") return Exchange::SingleCopy;
  CHECK(word == "staged", word);
  return Exchange::Staged;
}

}  // namespace

Programs read_programs(const char* path) {
  std::ifstream file(path);
  CHECK(file.good(), path);
  Programs programs;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    int collective = 0, n = 0, rank = 0, root = 0;
    std::string name, exchange, hosts;
    line >> collective >> name >> n >> rank >> root >> exchange >> hosts;
    if (rank == 0)
      programs.push_back({static_cast<Collective>(collective), name, n, root, exchange_named(exchange), hosts, {}, {}});
    Algorithm& algorithm = programs.back();
    CHECK(line.good() && algorithm.name == name && static_cast<int>(algorithm.words.size()) == rank, text.substr(0, 80));
    std::vector<std::int64_t> words;
    for (std::int64_t word; line >> word;) words.push_back(word);
    algorithm.programs.push_back(std::make_shared<const Program>(Program::load(words)));
    algorithm.words.push_back(std::move(words));
  }
  CHECK(!programs.empty(), path);
  return programs;
}

const Algorithm& find(const Programs& programs, Collective collective, const std::string& name, int n, int root,
                      Exchange exchange, const std::string& hosts) {
  for (const Algorithm& algorithm : programs)
    if (algorithm.collective == collective && algorithm.name == name && algorithm.n == n && algorithm.root == root &&
        algorithm.exchange == exchange && algorithm.hosts == hosts)
      return algorithm;
  failed(__FILE__, __LINE__, "no program of " + name + " for " + std::to_string(n) + " ranks");
}

Call make_call(const Algorithm& algorithm, int rank, const Arguments& arguments, std::size_t half_bytes) {
  const bool encoded = algorithm.exchange == Exchange::Encoded;
  return Call::make(algorithm.programs[static_cast<std::size_t>(rank)], algorithm.collective, arguments.dtype,
                    arguments.op, algorithm.root, algorithm.name, arguments.count, arguments.segment_bytes,
                    arguments.in_flight, arguments.stream, arguments.outbox, half_bytes,
                    encoded ? std::optional(CodecSpec{CodecKind::Threshold, 0}) : std::nullopt);
}

}  // namespace autotune::test
