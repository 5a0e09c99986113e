// Engines of hardware that is not there: what they report, what they refuse.

#include "pjrt/target/target.h"

#include "graph/engine.h"
#include "graph/ops.h"
#include "graph/passes.h"
#include "unit/pjrt/plugins.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>

namespace dllm::pjrt {
namespace {

using graph::Value;

Options target_options(const std::string& target, const std::string& plugin) {
  Options options(graph::engine_schema());
  options.set_str("kind", "pjrt");
  options.set_str("target", target);
  options.set_str("plugin", plugin);
  return options;
}

// Weights that are changed in place: w = w + x^T tanh(x w)
std::shared_ptr<graph::Graph> step(int64_t rows, int64_t width) {
  auto made = std::make_shared<graph::Graph>("step");
  const Value x = made->input("x", DType::f32, {rows, width});
  const Value w = made->input("w", DType::f32, {width, width});
  const Value y = tanh(dot(x, w));
  made->output("w", add(w, dot(transpose(x, {1, 0}), y)), "w");
  return made;
}

TEST(TargetEngine, NumbersOfAProgramThatIsTooBig) {
  EXPECT_EQ(explain_no_room("Ran out of memory on HBM, the total memory required for HLO "
                            "temporaries (48.00G) exceeds "
                            "available HBM (15.75G). HLO module: main.")
                .rfind("does not fit: needs 51539607552 bytes, has 16911433728 bytes: Ran out", 0),
            0u);
  EXPECT_NE(explain_no_room("Used 512.50M of 256.00K hbm.")
                .find("needs 537395200 bytes, has 262144 bytes"),
            std::string::npos);
  EXPECT_EQ(explain_no_room("no numbers here"), "no numbers here");
  for (const char* front : {"(", "Used ", "(1G) exceeds available ", "Used 1 of "}) {
    const std::string text = front + std::string(1'000'000, '7');
    if (std::string_view(front) != "Used 1 of ") EXPECT_EQ(explain_no_room(text), text);
  }
}

TEST(TargetEngine, AnAbsentPluginIsNamedWithWhatGetsIt) {
  if (file_exists("/usr/local/lib/python3.11/dist-packages/libtpu/libtpu.so"))
    GTEST_SKIP() << "libtpu is installed";
  const char* folders = std::getenv("DLLM_PLUGINS");
  const std::string before = folders == nullptr ? "" : folders;
  unsetenv("DLLM_PLUGINS");
  try {
    make_target_engine(target_options("v5e:1x1", ""));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found);
    EXPECT_NE(error.text().find("v5e:1x1"), std::string::npos) << error.text();
    EXPECT_NE(error.hint().find("scripts/fetch-plugins tpu"), std::string::npos) << error.hint();
  }
  if (!before.empty()) setenv("DLLM_PLUGINS", before.c_str(), 1);
}

TEST(TargetEngine, CompilesAndRunsNothing) {
  const std::string path = plugin_path("libtpu.so");
  if (!file_exists(path)) GTEST_SKIP() << path << " is not there: scripts/fetch-plugins tpu";
  const auto engine = make_target_engine(target_options("v5e:2x4", path));
  EXPECT_EQ(engine->kind(), "pjrt");
  EXPECT_EQ(engine->device_count(), 8);
  EXPECT_EQ(engine->describe().at("target"), "v5e:2x4");
  const auto graph = step(256, 512);
  const auto program = engine->compile(graph);
  const graph::PlanReport& plan = program->plan();
  EXPECT_TRUE(plan.compiled.known);
  EXPECT_EQ(plan.compiled.argument_bytes, (256 + 512) * 512 * 4);
  EXPECT_GE(plan.compiled.alias_bytes, 512 * 512 * 4);
  EXPECT_GT(plan.compiled.device_bytes, int64_t{15} << 30);
  EXPECT_GT(plan.compiled.peak_bytes, 0);
  EXPECT_GT(plan.compiled.flops, 0);
  EXPECT_EQ(plan.flops, graph::count_flops(*graph));
  EXPECT_FALSE(plan.compiled.fingerprint.empty());
  EXPECT_EQ(engine->i64("compiles"), 1);
  EXPECT_NE(program->text("stablehlo").find("tf.aliasing_output"), std::string::npos);
  EXPECT_NE(program->text("optimized").find("ENTRY"), std::string::npos);
  test::expect_error(Code::failed_precondition, "v5e:2x4",
                     [&] { engine->upload(Tensor(DType::f32, {2}), false); });
  test::expect_error(Code::failed_precondition, "v5e:2x4", [&] { program->run({}); });
}

// Weights of two layers, gathered as they are used; products cut over tensor; weights changed in
// place.
std::shared_ptr<graph::Graph> step_on_mesh(int64_t rows, int64_t width) {
  using graph::Axis;
  const graph::AxisSet fsdp(Axis::fsdp), tensor(Axis::tensor), both = fsdp.with(tensor);
  auto made = std::make_shared<graph::Graph>("mesh_step");
  const Value x = made->input("x", {Shape{rows, width / 2}, DType::f32, both});
  const Value w = made->input("w", {Shape{width / 2, width / 4}, DType::f32, both});
  const Value whole = all_gather(w, Axis::fsdp, 1, 4);
  const Value y = tanh(all_reduce(dot(x, whole), tensor));
  const Value gradient = dot(transpose(x, {1, 0}), vary(y, tensor));
  made->output("w", add(w, reduce_scatter(gradient, Axis::fsdp, 1, 4)), "w");
  return made;
}

TEST(TargetEngine, CompilesAProgramOfAMesh) {
  const std::string path = plugin_path("libtpu.so");
  if (!file_exists(path)) GTEST_SKIP() << path << " is not there: scripts/fetch-plugins tpu";
  Options options = target_options("v5e:2x4", path);
  options.set_str("mesh", "fsdp=4,tensor=2");
  const auto engine = make_target_engine(options);
  EXPECT_EQ(engine->i64("ranks"), 8);
  EXPECT_EQ(engine->describe().at("mesh"), "4 x 2 ranks (fsdp, tensor)");
  const auto program = engine->compile(step_on_mesh(256, 512));
  const graph::PlanReport& plan = program->plan();
  EXPECT_EQ(plan.compiled.argument_bytes, (256 * 256 + 256 * 128) * 4); // of one device
  EXPECT_GE(plan.compiled.alias_bytes, 256 * 128 * 4);
  const std::string text = program->text("optimized");
  EXPECT_NE(text.find("replica_groups"), std::string::npos);
  for (const char* collective : {"all-gather", "all-reduce"})
    EXPECT_NE(text.find(collective), std::string::npos) << collective;

  options.set_str("mesh", "fsdp=8,tensor=2");
  const Error few = test::error_of([&] { make_target_engine(options); });
  EXPECT_EQ(few.code(), Code::invalid_argument);
  EXPECT_EQ(few.text(),
            "a mesh of 8 x 2 ranks (fsdp, tensor) needs 16 devices, target v5e:2x4 has 8");
  EXPECT_EQ(few.hint(), "name a larger target, or use a mesh of at most 8 ranks");
}

TEST(TargetEngine, AProgramThatIsTooBigSaysWhatItNeeds) {
  const std::string path = plugin_path("libtpu.so");
  if (!file_exists(path)) GTEST_SKIP() << path << " is not there: scripts/fetch-plugins tpu";
  const auto engine = make_target_engine(target_options("v5e:1x1", path));
  test::expect_error(Code::resource_exhausted, "does not fit: needs ",
                     [&] { engine->compile(step(1 << 22, 2048)); });
}

TEST(TargetEngine, CoresShareTheMemoryOfTheirChip) {
  const std::string path = plugin_path("libtpu.so");
  if (!file_exists(path)) GTEST_SKIP() << path << " is not there: scripts/fetch-plugins tpu";
  for (const std::string chip : {"v4:2x2x1", "v5p:2x2x1"}) {
    const auto whole = make_target_engine(target_options(chip, path));
    const auto cores = make_target_engine(target_options(chip + "/cores", path));
    EXPECT_EQ(cores->device_count(), 2 * whole->device_count());
    const double part = static_cast<double>(cores->i64("memory_limit")) /
                        static_cast<double>(whole->i64("memory_limit"));
    EXPECT_NEAR(part, 0.5, 0.01) << chip;
    // The compiler's own number agrees.
    const std::string text = test::error_of([&] { cores->compile(step(1 << 24, 2048)); }).text();
    const size_t has = text.find(", has ");
    ASSERT_NE(has, std::string::npos) << text;
    EXPECT_NEAR(std::strtod(text.c_str() + has + 6, nullptr) /
                    static_cast<double>(cores->i64("memory_limit")),
                1.0, 0.01)
        << text;
  }
}

TEST(TargetEngine, UnknownHardwareIsThePluginsToRefuse) {
  const std::string path = plugin_path("libtpu.so");
  if (!file_exists(path)) GTEST_SKIP() << path << " is not there: scripts/fetch-plugins tpu";
  EXPECT_THROW(make_target_engine(target_options("v7x:2x2x1", path)), Error);
  EXPECT_THROW(make_target_engine(target_options("v5e:3x3", path)), Error);
}

} // namespace
} // namespace dllm::pjrt
