// SHA-256 (FIPS 180-4), for the digest of a table and the name of a machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace autotune::plugin {

class Sha256 {
 public:
  void add(std::string_view bytes);
  // The digest in lower-case hexadecimal digits; nothing may be added afterwards.
  std::string hex();

 private:
  void block(const unsigned char* bytes);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest_{};
  std::uint64_t length_ = 0;  // bytes so far
};

std::string sha256_hex(std::string_view bytes);

}  // namespace autotune::plugin
