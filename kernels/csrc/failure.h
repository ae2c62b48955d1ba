// What the native code throws; bindings.cc turns it into autotune.errors.CommunicatorError.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace autotune {

struct Failure : std::runtime_error {
  Failure(const std::string& message, std::string remedy_) : std::runtime_error(message), remedy(std::move(remedy_)) {}
  std::string remedy;
};

// An argument that cannot be meant; becomes autotune.errors.UsageError.
struct BadArgument : Failure {
  using Failure::Failure;
};

}  // namespace autotune
