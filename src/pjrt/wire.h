#pragma once
// Reading of protobuf's wire format: fields in the order they lie, unknown ones skipped by who does
// not ask for them.

#include "base/error.h"

#include <cstdint>
#include <string_view>

namespace dllm::pjrt {

// for (WireReader reader(bytes); reader.next();) switch (reader.field()) { case 1:
// use(reader.bytes()); ... }
class WireReader {
public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  // Moves to the next field; false at the end. Fails with data_loss where the bytes are no message.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    field_ = static_cast<int64_t>(tag >> 3);
    bytes_ = {};
    number_ = 0;
    switch (tag & 7) {
    case 0: number_ = varint(); return true;
    case 1: bytes_ = take(8); return true;
    case 2: bytes_ = take(varint()); return true;
    case 5: bytes_ = take(4); return true;
    default: fail(Code::data_loss, "wire type {} in a message of a plugin", tag & 7);
    }
  }

  int64_t field() const { return field_; }
  int64_t number() const { return static_cast<int64_t>(number_); }
  std::string_view bytes() const { return bytes_; } // of a message, a text or packed numbers

  // Repeated numbers come packed into bytes or one by one: calls use(number) for each.
  template <class F> void numbers(F&& use) const {
    if (bytes_.empty()) return use(number());
    for (WireReader packed(bytes_); !packed.rest_.empty();) {
      use(static_cast<int64_t>(packed.varint()));
    }
  }

private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    fail(Code::data_loss, "a message of a plugin ends inside a number");
  }
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) {
      fail(Code::data_loss, "a field of {} bytes in a message of a plugin that has {} left", size,
           rest_.size());
    }
    const std::string_view result = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return result;
  }

  std::string_view rest_, bytes_;
  int64_t field_ = 0;
  uint64_t number_ = 0;
};

} // namespace dllm::pjrt
