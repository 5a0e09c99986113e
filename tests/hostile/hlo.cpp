// The optimized program that a plugin returns as a protobuf message, written as text.

#include "harness.h"

#include "base/error.h"
#include "pjrt/plugin/compile.h"

using namespace dllm::hostile;

namespace {

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(int field, uint64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(value);
}
std::string message(int field, const std::string& bytes) {
  return varint((static_cast<uint64_t>(field) << 3) | 2) + varint(bytes.size()) + bytes;
}

// Two computations; the entry reads the other and gathers over two groups. Field numbers are those
// of xla's hlo.proto.
std::string module_bytes() {
  const std::string shape = number(2, 11) + message(3, varint(8) + varint(400)) +
                            message(5, message(1, varint(1) + varint(0)));
  const std::string tuple = number(2, 13) + message(4, shape) + message(4, shape);
  const std::string parameter =
      message(1, "a") + message(2, "parameter") + message(3, shape) + number(35, 7);
  const std::string reduce = message(1, "ar") + message(2, "all-reduce-start") + message(3, tuple) +
                             number(35, 300) + message(36, varint(7)) + message(38, varint(5)) +
                             message(49, message(1, varint(0) + varint(1)));
  const std::string entry = message(1, "main") + message(2, parameter) + message(2, reduce) +
                            number(5, 6) + number(6, 300);
  return message(1, "step") + message(3, entry) + message(3, message(1, "add") + number(5, 5)) +
         number(6, 6);
}

// Shapes in shapes: the reader goes down with them.
std::string deep_module(int depth) {
  std::string shape = number(2, 11);
  for (int i = 0; i < depth; ++i) shape = number(2, 13) + message(4, shape);
  const std::string entry =
      message(1, "main") +
      message(2, message(1, "a") + message(2, "parameter") + message(3, shape) + number(35, 1)) +
      number(5, 1) + number(6, 1);
  return message(1, "deep") + message(3, entry) + number(6, 1);
}

} // namespace

int main(int count, char** arguments) {
  constexpr int32_t kDataLoss = 15, kUnimplemented = 12, kExhausted = 8;
  Harness harness("hlo", count, arguments, {kDataLoss, kUnimplemented, kExhausted});
  const Feed read = [](const std::string& bytes) -> Outcome {
    try {
      const std::string text = dllm::pjrt::hlo_text(bytes, "hlo");
      if (text.size() > 64 * (bytes.size() + 64))
        return {13, "the text is larger than the message by far"};
    } catch (const dllm::Error& error) {
      return {static_cast<int32_t>(error.code()), error.text()};
    }
    return {};
  };
  const std::string seed = module_bytes();
  harness.seed("module", seed, read);
  harness.seed("shapes in shapes", deep_module(20), read);
  harness.mutants(
      "module",
      [&](uint64_t n) {
        return mutant({seed, deep_module(8)}, Form::binary, n);
      },
      read);
  harness.known("shapes without an end", deep_module(30'000), kDataLoss, "", read);
  return harness.finish();
}
