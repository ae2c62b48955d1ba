// Tables with bytes cut, flipped, repeated and swapped: parse_table() refuses them or gives decisions, and nothing else
// happens. Run under sanitizers. Usage: plugin_fuzz FOLDER ITERATIONS; the seed is new every time and printed.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "words.h"

namespace {

using autotune::plugin::Fault;
using Random = std::mt19937_64;

std::vector<std::string> tables(const char* folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    found.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return found;
}

void mutate(std::string& text, const std::string& other, Random& random) {
  const auto below = [&](std::size_t n) { return n ? random() % n : 0; };
  static constexpr char kLiteral[] = "\"{}[],:0123456789eE.-+\\utruefalsn\0\x80\xff\xed\xf4 \n";
  static constexpr std::string_view kBytes(kLiteral, sizeof kLiteral - 1);
  const std::size_t at = below(text.size()), length = std::size_t{1} << below(9);
  switch (below(6)) {
    case 0: if (!text.empty()) text[at] = kBytes[below(kBytes.size())]; break;
    case 1: text.erase(at, length); break;
    case 2: text.insert(at, other, below(other.size()), length); break;
    case 3: text.resize(at); break;
    case 4: text.insert(at, std::string(length, kBytes[below(kBytes.size())])); break;
    default: if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
  }
}

// Whether the text is a table; what a plugin then does with it is done.
bool used(const std::string& text) {
  using namespace autotune::plugin;
  try {
    const Table table = parse_table(text);
    for (const Key& key : table.keys)
      for (const Library& library : {kHcclTuner, kNccl})
        for (const Words& words : library.words) {
          const Shape shape{key.n_ranks, key.placement.size(), key.dtype, true};
          for (const Line& line : lines_of(table, library, words, shape, {"measured", "simulated", "imported"}))
            if (line.low > line.high) std::abort();
        }
    return true;
  } catch (const Fault&) {
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::vector<std::string> sound = tables(argv[1]);
  const auto seed = std::random_device()();
  std::printf("seed %u, %zu tables\n", seed, sound.size());
  Random random(seed);
  long kept = 0;
  const long n = std::strtol(argv[2], nullptr, 10);
  for (const std::string& text : sound)
    if (!used(text)) return std::printf("a sound table is refused\n"), 1;
  if (sound.empty()) return 1;
  for (long i = 0; i < n; ++i) {
    std::string text = sound[random() % sound.size()];
    for (auto times = 1 + random() % 4; times > 0; --times) mutate(text, sound[random() % sound.size()], random);
    kept += used(text);
  }
  std::printf("%ld of %ld mutated tables were still tables\n", kept, n);
  return kept == n;
}
