#include "pjrt/plugin/compile.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace dllm::pjrt {
namespace {

// Messages as a compiler would write them.
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

constexpr int kF32 = 11;
const std::string kShape = number(2, kF32) + message(3, varint(8) + varint(400)) +
                           message(5, message(1, varint(1) + varint(0)));

std::string module() {
  const std::string a =
      message(1, "a") + message(2, "parameter") + message(3, kShape) + number(35, 7);
  const std::string tuple = number(2, 13) + message(4, kShape) + message(4, kShape);
  const std::string reduce = message(1, "ar") + message(2, "all-reduce-start") + message(3, tuple) +
                             number(35, 300) + message(36, varint(7)) + message(38, varint(5)) +
                             message(49, message(1, varint(0) + varint(1))) +
                             message(49, number(1, 2) + number(1, 3));
  const std::string entry =
      message(1, "main") + message(2, a) + message(2, reduce) + number(5, 6) + number(6, 300);
  const std::string add = message(1, "add") + number(5, 5);
  return message(1, "step") + message(3, entry) + message(3, add) + number(6, 6);
}

TEST(HloText, ReadsAModule) {
  const std::string text = hlo_text(module(), "hlo");
  EXPECT_EQ(text, "HloModule step\n\n%add {\n}\n\n"
                  "ENTRY %main {\n  %a = f32[8,400]{1,0} parameter(0)\n"
                  "  ROOT %ar = (f32[8,400]{1,0}, f32[8,400]{1,0}) all-reduce-start(%a), "
                  "replica_groups={{0,1},{2,3}}, calls=%add\n}\n\n");
  EXPECT_EQ(hlo_text(message(1, module()) + message(2, "config"), "hlo_with_config"), text);
}

TEST(HloText, BytesThatAreNoModuleFail) {
  const std::string whole = module();
  for (size_t size = 1; size < whole.size(); ++size) {
    try {
      hlo_text(whole.substr(0, size), "hlo");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::data_loss);
    }
  }
  EXPECT_THROW(hlo_text(std::string(40, '\xff'), "hlo"), Error);
  EXPECT_THROW(hlo_text("", "hlo_with_config"), Error);
  EXPECT_THROW(hlo_text(whole, "mlir"), Error);
}

} // namespace
} // namespace dllm::pjrt
