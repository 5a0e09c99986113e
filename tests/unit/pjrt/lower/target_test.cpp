#include "pjrt/target/target.h"

#include "base/error.h"
#include "base/files.h"
#include "pjrt/plugin/client.h"
#include "pjrt/plugin/compile.h"
#include "unit/pjrt/plugins.h"

#include <gtest/gtest.h>

namespace dllm::pjrt {
namespace {

#define NEED_PLUGIN(path, name)                                                                    \
  if (!file_exists(path)) GTEST_SKIP() << path << " is not there: scripts/fetch-plugins " << name

TEST(Target, NamesOfHardware) {
  const Target v5e = parse_target("v5e:2x4");
  EXPECT_EQ(v5e.maker, Target::Maker::tpu);
  EXPECT_EQ(v5e.topology_name(), "v5e:2x4");
  EXPECT_TRUE(v5e.topology_options("").empty());
  EXPECT_EQ(parse_target("tpu7x:2x2x1").topology_name(), "tpu7x:2x2x1");
  const Target eight = parse_target("h100:8");
  EXPECT_EQ(eight.maker, Target::Maker::cuda);
  EXPECT_EQ(eight.chip, "h100");
  EXPECT_EQ(eight.devices, 8);
  EXPECT_EQ(parse_target("h200").devices, 1);
  EXPECT_EQ(parse_target("a100-pcie").chip, "a100-pcie");
}

TEST(Target, AChipOfTwoCoresIsOneDeviceUnlessAskedOtherwise) {
  const NamedValues options = parse_target("v4:2x2x4").topology_options("");
  ASSERT_NE(find_value<std::string>(options, "chip_config_name"), nullptr);
  EXPECT_EQ(*find_value<std::string>(options, "chip_config_name"), "megacore");
  EXPECT_EQ(*find_value<std::vector<int64_t>>(options, "wrap"), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(
      *find_value<std::vector<int64_t>>(parse_target("v4:4x4x8").topology_options(""), "wrap"),
      (std::vector<int64_t>{1, 1, 1}));
  EXPECT_TRUE(parse_target("v4:2x2x4/cores").topology_options("").empty());
}

TEST(Target, OtherNamesAreRefusedWithExamples) {
  for (const char* name : {"",
                           "v5e",
                           "v5e-8",
                           "v5e:8",
                           "v5e:2x",
                           "v4:2x2x4/core",
                           "v5e:1x1/cores",
                           "h100:0",
                           "h100:99999999999999999999",
                           "v4:99999999999999999999x2x2",
                           "h100:99",
                           "H100",
                           "h100:",
                           "v4:2x2x2x2",
                           "v5e:12345x1",
                           "v5e:2x4/cores2",
                           "tpu:2x4",
                           "a100-",
                           "-a100",
                           "1a100",
                           "a100:8x"}) {
    try {
      parse_target(name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument) << name;
      EXPECT_NE(error.hint().find("v5e:2x4"), std::string::npos) << name;
    }
  }
}

TEST(Target, ALongNameIsRefusedAsAShortOneIs) {
  for (const char* part : {"a", "a-", "1", "v5e:1x1"}) {
    std::string name = "h";
    for (int i = 0; i < 200'000; ++i) name += part;
    try {
      parse_target(name);
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument) << part;
      EXPECT_LT(error.text().size(), 200u);
    }
  }
}

TEST(Target, AGpuIsFoundByItsWords) {
  const std::string path = ::testing::TempDir() + "fake_cuda_plugin.so";
  const auto description = [](const char* name, const char* bandwidth, const char* platform) {
    return std::string("gpu_device_info {\n  memory_bandwidth: ") + bandwidth +
           "\n}\nplatform_name: \"" + platform + "\"\ndevice_description_str: \"" + name + "\"\n" +
           '\0';
  };
  write_file_atomic(
      path, "machine code" + description("NVIDIA X1 PCIe", "10", "CUDA") + "gpu_device_info {" +
                '\0' + description("NVIDIA X1 80GB", "30", "CUDA") +
                description("NVIDIA X1 MIG 1g", "5", "CUDA") + description("X2", "99", "ROCM"));
  EXPECT_NE(gpu_description(path, "x1").find("NVIDIA X1 80GB"), std::string::npos) << "the fastest";
  EXPECT_NE(gpu_description(path, "x1-pcie").find("NVIDIA X1 PCIe"), std::string::npos);
  EXPECT_EQ(gpu_description(path, "x1").find("machine"), std::string::npos);
  try {
    gpu_description(path, "x2");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found);
    EXPECT_NE(error.hint().find("NVIDIA X1 MIG 1g"), std::string::npos);
  }
}

constexpr const char* kProgram = R"(module {
func.func @main(%w: tensor<256x256xf32> {tf.aliasing_output = 0 : i32}, %g: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %s = stablehlo.dot_general %w, %g, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  return %s : tensor<256x256xf32>
}})";

constexpr const char* kCollective = R"(module {
func.func @main(%a: tensor<64x128xf32>) -> tensor<512x128xf32> {
  %g = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}> : (tensor<64x128xf32>) -> tensor<512x128xf32>
  return %g : tensor<512x128xf32>
}})";

void check_memory(const Compiled& compiled) {
  const auto memory = compiled.memory();
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->arguments, 2 * 256 * 256 * 4);
  EXPECT_GE(memory->aliased, 256 * 256 * 4) << "the donated argument takes the result";
  EXPECT_FALSE(compiled.fingerprint().empty());
}

TEST(Target, TpusCompileWithoutOne) {
  const std::string path = plugin_path("libtpu.so");
  NEED_PLUGIN(path, "tpu");
  const Plugin& plugin = Plugin::load(path, true);
  const struct {
    const char* name;
    size_t devices;
  } kTargets[] = {{"v5e:1x1", 1},   {"v6e:1x1", 1},         {"v5p:2x2x1", 4},
                  {"v4:2x2x4", 16}, {"v4:2x2x4/cores", 32}, {"v5p:2x2x1/cores", 8}};
  for (const auto& [name, devices] : kTargets) {
    const Target target = parse_target(name);
    const Topology topology(plugin, target.topology_name(), target.topology_options(path));
    EXPECT_EQ(topology.devices().size(), devices) << name;
    EXPECT_GT(topology.memory_limit(), int64_t{10} << 30) << name;
    EXPECT_EQ(topology.platform_name(), "tpu");
    check_memory(topology.compile(kProgram, {}));
  }
}

TEST(Target, TheOptimizedProgramOfATpuNamesItsCollectives) {
  const std::string path = plugin_path("libtpu.so");
  NEED_PLUGIN(path, "tpu");
  const Plugin& plugin = Plugin::load(path, true);
  const Topology topology(plugin, "v5e:2x4", {});
  CompileOptions options;
  options.replicas = 8;
  const std::string text =
      hlo_text(topology.compile(kCollective, options).optimized_program(), "hlo_with_config");
  EXPECT_NE(text.find("ENTRY %main"), std::string::npos) << text;
  EXPECT_NE(text.find("all-gather"), std::string::npos) << text;
  EXPECT_NE(text.find("{0,1,2,3,4,5,6,7}"), std::string::npos) << text;
}

TEST(Target, ATpuThatIsTooSmallSaysSo) {
  const std::string path = plugin_path("libtpu.so");
  NEED_PLUGIN(path, "tpu");
  const Topology topology(Plugin::load(path, true), "v5e:1x1", {});
  const char* program = R"(module {
func.func @main(%a: tensor<4096x4096x512xf32>) -> tensor<4096x4096x512xf32> {
  return %a : tensor<4096x4096x512xf32>
}})";
  try {
    topology.compile(program, {});
    ADD_FAILURE() << "32 GiB fit into 16";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource_exhausted) << error.text();
    RecordProperty("text", error.text());
    std::puts(error.text().c_str());
  }
}

TEST(Target, GpusCompileWithoutOne) {
  const std::string path = plugin_path("xla_cuda_plugin.so");
  NEED_PLUGIN(path, "cuda");
  if (cuda_folder(path).empty())
    GTEST_SKIP() << "no ptxas next to the plugin: scripts/fetch-plugins cuda";
  use_cuda_folder(cuda_folder(path));
  const Plugin& plugin = Plugin::load(path, true);
  for (const auto& [name, devices] :
       {std::pair<const char*, size_t>{"h100", 1}, {"h100:8", 8}, {"h200", 1}}) {
    const Target target = parse_target(name);
    const Topology topology(plugin, target.topology_name(), target.topology_options(path));
    EXPECT_EQ(topology.devices().size(), devices) << name;
    EXPECT_GT(topology.memory_limit(), int64_t{50} << 30) << name;
    check_memory(topology.compile(kProgram, {}));
  }
}

} // namespace
} // namespace dllm::pjrt
