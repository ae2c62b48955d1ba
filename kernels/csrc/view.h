// Python buffers and numbers as the native code takes them: checked, never copied. For the files that bind.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "elements.h"
#include "failure.h"

namespace autotune {

// A contiguous buffer for the time of one call; empty if None was given.
class View {
 public:
  View(nanobind::handle object, bool writable, const char* what) {
    if (object.is_none()) return;
    const int flags = writable ? PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE : PyBUF_C_CONTIGUOUS;
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) {
      PyErr_Clear();
      throw BadArgument(std::string(what) + " of type " + nanobind::type_name(object.type()).c_str() + " is not a " +
                            (writable ? "writable, " : "") + "contiguous buffer in C order",
                        "pass a contiguous NumPy array (numpy.ascontiguousarray), memoryview or bytearray");
    }
    held_ = true;
  }
  ~View() {
    if (held_) PyBuffer_Release(&view_);
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  char* data() const { return held_ ? static_cast<char*>(view_.buf) : nullptr; }
  std::size_t bytes() const { return held_ ? static_cast<std::size_t>(view_.len) : 0; }
  bool given() const { return held_; }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

template <class Enum>
Enum checked(int value, int limit, const char* what) {
  if (value < 0 || value >= limit)
    throw BadArgument(std::string(what) + " " + std::to_string(value) + " is unknown",
                      "this is a bug in autotune: please report it with this message");
  return static_cast<Enum>(value);
}

inline DType dtype_of(int value) { return checked<DType>(value, kDTypes, "dtype"); }

inline void check_size(const char* what, std::size_t got, std::size_t elements, DType dtype) {
  const std::size_t wanted = elements * item_bytes(dtype);
  if (got != wanted)
    throw BadArgument(std::string(what) + " has " + std::to_string(got) + " bytes, not " + std::to_string(wanted) +
                          " (" + std::to_string(elements) + " elements)",
                      "pass a buffer of exactly that size");
}

}  // namespace autotune
