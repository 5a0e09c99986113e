// The wire form of options against vectors made by protoc from XLA's own files.

#include "pjrt/plugin/compile.h"

#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::pjrt {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

TEST(CompileOptions, OneDevice) {
  EXPECT_EQ(hex(serialize({})), "1a0f08ffffffffffffffffff0120012801");
}

TEST(CompileOptions, PartitionsShardyAndAFlag) {
  CompileOptions options;
  options.partitions = 4;
  options.spmd = options.shardy = true;
  options.devices = {0, 1, 2, 3};
  options.propagate_to_outputs = {false, false};
  options.flags = {parse_flag("xla_gpu_enable_latency_hiding_scheduler=true")};
  EXPECT_EQ(hex(serialize(options)),
            "1a3208ffffffffffffffffff012001280430014a18080110041a030a01001a030a01011a030a01021a030a"
            "010362020000980101"
            "3a2d0a27786c615f6770755f656e61626c655f6c6174656e63795f686964696e675f7363686564756c6572"
            "12021001");
}

TEST(CompileOptions, ReplicasFormOneListOfDevices) {
  CompileOptions options;
  options.replicas = 3;
  options.devices = {6, 2, 300}; // 300: two bytes
  EXPECT_EQ(hex(serialize(options)),
            "1a1d08ffffffffffffffffff01200328014a0c080310011a060a040602ac02");
}

TEST(CompileOptions, FlagsKeepNumbersAsText) {
  CompileOptions options;
  options.flags = {parse_flag("a=12"), parse_flag("b=False")};
  EXPECT_EQ(hex(serialize(options)).substr(34), "3a090a016112040a0231323a070a016212021000");
  test::expect_error(Code::invalid_argument, "xla_dump_to is not name=value",
                     [] { parse_flag("xla_dump_to"); });
}

} // namespace
} // namespace dllm::pjrt
