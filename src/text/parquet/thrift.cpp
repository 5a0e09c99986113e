#include "text/parquet/thrift.h"

#include "base/error.h"
#include "base/task.h"

namespace dllm::text::parquet {

namespace {

// Types of the compact protocol.
constexpr int kTrue = 1, kFalse = 2, kByte = 3, kI16 = 4, kI64 = 6, kDouble = 7, kBinary = 8,
              kList = 9, kSet = 10, kMap = 11, kStruct = 12;
constexpr int kMaxDepth = 32;
constexpr int64_t kStepsUnchecked = 4096; // fields between two checks of the task

int64_t zigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

} // namespace

void ThriftReader::bad(const char* what) {
  fail_with_hint("copy the file again", Code::data_loss, "{}: {} at byte {} of its description",
                 where_, what, at_);
}

void ThriftReader::need(const Field& field, int type, const char* what) {
  if (field.type != type) bad(what);
}

uint8_t ThriftReader::byte() {
  if (at_ >= bytes_.size()) {
    ran_out_ = true;
    bad("it ends");
  }
  return static_cast<uint8_t>(bytes_[at_++]);
}

uint64_t ThriftReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t next = byte();
    value |= static_cast<uint64_t>(next & 0x7F) << shift;
    if (next < 0x80) return value;
  }
  bad("a number of more than 64 bits");
}

std::optional<ThriftReader::Field> ThriftReader::field(int64_t& last) {
  if (++steps_ % kStepsUnchecked == 0) check_task(task_);
  const uint8_t head = byte();
  if (head == 0) return std::nullopt;
  const int step = head >> 4;
  last = step != 0 ? last + step : zigzag(varint());
  if (last < 0 || last > INT16_MAX) bad("a field without a number");
  return Field{last, head & 0x0F};
}

int64_t ThriftReader::integer(const Field& field, int64_t least, int64_t most) {
  if (field.type < kI16 || field.type > kI64) bad("expected a whole number");
  const int64_t value = zigzag(varint());
  if (value < least || value > most) bad("a number out of range");
  return value;
}

bool ThriftReader::boolean(const Field& field) {
  if (field.type != kTrue && field.type != kFalse) bad("expected true or false");
  return field.type == kTrue;
}

std::string_view ThriftReader::binary(const Field& field) {
  need(field, kBinary, "expected a string");
  const uint64_t size = varint();
  if (size > bytes_.size() - at_) {
    ran_out_ = true;
    bad("a string is cut");
  }
  const std::string_view value = bytes_.substr(at_, size);
  at_ += size;
  return value;
}

ThriftReader::List ThriftReader::list(const Field& field) {
  if (field.type != kList && field.type != kSet) bad("expected a list");
  const uint8_t head = byte();
  const uint64_t count = head >> 4 == 15 ? varint() : head >> 4;
  if (count > bytes_.size() - at_) { // an item takes a byte at least
    ran_out_ = true;
    bad("a list is cut");
  }
  return {static_cast<int64_t>(count), {0, head & 0x0F}};
}

void ThriftReader::structure(const Field& field) {
  need(field, kStruct, "expected a struct");
}

void ThriftReader::skip(const Field& field, int depth) {
  if (depth > kMaxDepth) bad("structs nested too deep");
  if (++steps_ % kStepsUnchecked == 0) check_task(task_);
  // A boolean in a list has its own byte; a boolean in a struct is in the type. Items of a list
  // have the id 0.
  if (field.type == kTrue || field.type == kFalse) {
    if (field.id == 0) byte();
  } else if (field.type == kByte) {
    byte();
  } else if (field.type >= kI16 && field.type <= kI64) {
    varint();
  } else if (field.type == kDouble) {
    for (int i = 0; i < 8; ++i) byte();
  } else if (field.type == kBinary) {
    binary(field);
  } else if (field.type == kList || field.type == kSet) {
    const List items = list(field);
    for (int64_t i = 0; i < items.count; ++i) skip(items.item, depth + 1);
  } else if (field.type == kMap) {
    const uint64_t count = varint();
    const uint8_t types = count == 0 ? 0 : byte();
    for (uint64_t i = 0; i < count; ++i) {
      skip({0, types >> 4}, depth + 1);
      skip({0, types & 0x0F}, depth + 1);
    }
  } else if (field.type == kStruct) {
    int64_t last = 0;
    while (const auto inner = this->field(last)) skip(*inner, depth + 1);
  } else {
    bad("an unknown type");
  }
}

} // namespace dllm::text::parquet
