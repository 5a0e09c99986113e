// The engine on real plugins: arrays there and back, checks before a run, donation, runs ahead,
// what is counted.

#include "pjrt/engine.h"

#include "cpu/engine.h"
#include "graph/engine.h"
#include "graph/ops.h"
#include "pjrt/engine_state.h"
#include "unit/pjrt/plugins.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <numeric>
#include <thread>

namespace dllm::pjrt {
namespace {

using graph::BufferRef;
using graph::Value;
using test::expect_error;

Options engine_options(const std::string& plugin, const std::string& cache = "off") {
  Options options(graph::engine_schema());
  options.set_str("kind", "pjrt");
  options.set_str("plugin", plugin);
  options.set_str("pjrt.cache", cache);
  return options;
}

Tensor counting(Shape shape, float first = 0) {
  Tensor made(DType::f32, std::move(shape));
  std::iota(made.mutable_as<float>().begin(), made.mutable_as<float>().end(), first);
  return made;
}

std::vector<float> floats(const Tensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

// y = x w^T, sum = sum of y
std::shared_ptr<graph::Graph> affine() {
  auto made = std::make_shared<graph::Graph>("affine");
  const Value x = made->input("x", DType::f32, {2, 3});
  const Value w = made->input("w", {{4, 3}, DType::f32, {}}, true);
  const Value y = linear(x, w);
  made->output("y", y);
  made->output("sum", sum(y, {0, 1}));
  return made;
}

// state + step, in place, and twice the step
std::shared_ptr<graph::Graph> counter(int64_t size = 256) {
  auto made = std::make_shared<graph::Graph>("counter");
  const Value state = made->input("state", DType::f32, {size});
  const Value step = made->input("step", DType::f32, {1});
  made->output("state", add(state, step), "state");
  made->output("twice", add(step, step));
  return made;
}

const DeviceBuffer& inside(const BufferRef& buffer) {
  return dynamic_cast<const DeviceBuffer&>(*buffer);
}

class PjrtEngine : public OnPlugins {
protected:
  static std::shared_ptr<graph::Engine> engine() { return make_engine(engine_options(path())); }
};

TEST_P(PjrtEngine, RunsAGraphLikeTheCpuEngine) {
  const auto mine = engine(), reference = cpu::make_engine(Options(graph::engine_schema()));
  std::vector<std::vector<float>> results;
  for (const auto& each : {mine, reference}) {
    const auto program = each->compile(affine());
    const auto out = program->run(std::vector<BufferRef>{
        each->upload(counting({2, 3})), each->upload_weight(counting({4, 3}), true)});
    ASSERT_EQ(out.size(), 2u);
    results.push_back(floats(out[0]->read()));
    results.push_back(floats(out[1]->read()));
    EXPECT_EQ(program->plan().flops, 2.0 * 2 * 3 * 4);
  }
  EXPECT_EQ(results[0], results[2]); // small whole numbers: exact either way
  EXPECT_EQ(results[1], results[3]);
  EXPECT_EQ(mine->i64("compiles"), 1);
}

TEST_P(PjrtEngine, KeepsEveryElementType) {
  const auto mine = engine();
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64,
                      DType::u8, DType::i8, DType::u32}) {
    const Tensor given = counting({3, 5}).to(dtype);
    const BufferRef buffer = mine->upload(given);
    EXPECT_EQ(buffer->dtype(), dtype);
    const Tensor back = buffer->read();
    EXPECT_EQ(std::memcmp(back.bytes(), given.bytes(), static_cast<size_t>(given.byte_size())), 0)
        << dtype_name(dtype);
  }
  EXPECT_EQ(mine->upload(Tensor::scalar(2.5f))->read().as<float>()[0], 2.5f);
  EXPECT_EQ(mine->upload(Tensor(DType::f32, {0, 4}))->read().shape(), Shape({0, 4}));
  expect_error(Code::invalid_argument, "the tensor to upload has no array",
               [&] { mine->upload(Tensor()); });
}

TEST_P(PjrtEngine, CopiesWhatIsNotShared) {
  const auto mine = engine();
  Tensor tensor = counting({64});
  const BufferRef copied = mine->upload(tensor), shared = mine->upload(tensor, true);
  tensor.mutable_as<float>()[0] = 99;
  EXPECT_EQ(copied->read().as<float>()[0], 0);
  EXPECT_EQ(inside(shared).array().unsafe_pointer(), reinterpret_cast<uintptr_t>(tensor.bytes()));
  // Not aligned: copied, but held until then.
  const Tensor odd = counting({65}).rows(1, 65);
  EXPECT_EQ(mine->upload(odd, true)->read().as<float>()[0], 1);
}

TEST_P(PjrtEngine, RefusesAMeshOfSeveralRanks) {
  const auto mine = engine();
  graph::Placement place;
  place.mesh.set(graph::Axis::data, 2);
  EXPECT_FALSE(mine->runs(place));
  expect_error(Code::unimplemented,
               "this pjrt engine is rank 0 of 1 and cannot be rank 0 of a mesh of 2 ranks (data)",
               [&] { mine->compile(affine(), place); });
  expect_error(Code::unimplemented, "a mesh of 2 ranks (data)", [&] {
    mine->upload(counting({2, 3}), false, place, graph::Layout());
  });
  EXPECT_EQ(mine->compile(affine(), graph::Placement{})->placement(), graph::Placement{});
}

TEST_P(PjrtEngine, NamesWrongInputs) {
  const auto mine = engine(), other = engine();
  const auto program = mine->compile(affine());
  const BufferRef x = mine->upload(counting({2, 3})), w = mine->upload(counting({4, 3}));
  const auto run = [&](std::vector<BufferRef> inputs) { return program->run(inputs); };
  expect_error(Code::invalid_argument, "graph affine has 2 inputs, 1 were given",
               [&] { run({x}); });
  expect_error(Code::invalid_argument, "input w of graph affine is missing", [&] {
    run({x, nullptr});
  });
  expect_error(Code::invalid_argument,
               "input w of graph affine is f32(4, 3), the given array is f32(2, 3)", [&] {
                 run({x, x});
               });
  // As many bytes: plugins would take the bits.
  expect_error(Code::invalid_argument,
               "input w of graph affine is f32(4, 3), the given array is i32(4, 3)", [&] {
                 run({x, mine->upload(Tensor(DType::i32, {4, 3}))});
               });
  expect_error(Code::invalid_argument,
               "input w of graph affine is f32(4, 3), the given array is f32(3, 4)", [&] {
                 run({x, mine->upload(counting({3, 4}))});
               });
  expect_error(Code::invalid_argument, "input x of graph affine belongs to another engine", [&] {
    run({other->upload(counting({2, 3})), w});
  });
  expect_error(Code::invalid_argument, "input x of graph affine belongs to another engine", [&] {
    run({cpu::make_engine(Options(graph::engine_schema()))->upload(counting({2, 3})), w});
  });
  EXPECT_EQ(run({x, w}).size(), 2u); // still usable
}

TEST_P(PjrtEngine, ChangesStateInPlace) {
  const auto mine = engine();
  const auto program = mine->compile(counter());
  EXPECT_GE(program->plan().compiled.alias_bytes, 256 * 4);
  EXPECT_EQ(program->plan().output_bytes, 4); // the state takes its input's place
  const BufferRef step = mine->upload(Tensor::from<float>({1}, std::vector<float>{1}));
  std::vector<BufferRef> inputs{mine->upload(counting({256})), step};
  const uintptr_t place = inside(inputs[0]).array().unsafe_pointer();
  for (int i = 1; i <= 5; ++i) {
    std::vector<BufferRef> out = program->run(inputs);
    EXPECT_TRUE(inside(inputs[0]).is_donated());
    inputs[0] = out[0];
  }
  EXPECT_EQ(inside(inputs[0]).array().unsafe_pointer(), place);
  EXPECT_EQ(floats(inputs[0]->read())[255], 260);
}

TEST_P(PjrtEngine, RefusesWhatWasTakenOver) {
  const auto mine = engine();
  const auto program = mine->compile(counter());
  std::vector<BufferRef> inputs{mine->upload(counting({256})),
                                mine->upload(Tensor(DType::f32, {1}))};
  program->run(inputs);
  expect_error(Code::failed_precondition, "input state of graph counter was taken over",
               [&] { program->run(inputs); });
  expect_error(Code::failed_precondition, "was taken over by a run", [&] { inputs[0]->read(); });
  EXPECT_EQ(inputs[0]->memory_bytes(), 0);
}

TEST_P(PjrtEngine, SparesWhatOthersHold) {
  const auto mine = engine();
  const auto program = mine->compile(counter());
  const BufferRef held = mine->upload(counting({256}));
  std::vector<BufferRef> inputs{held,
                                mine->upload(Tensor::from<float>({1}, std::vector<float>{5}))};
  const auto out = program->run(inputs);
  EXPECT_EQ(floats(held->read())[0], 0);
  EXPECT_EQ(floats(out[0]->read())[0], 5);
  // Borrowed storage of the host is never written to, held by others or not.
  const Tensor host = counting({256});
  inputs[0] = mine->upload(host, true);
  EXPECT_EQ(floats(program->run(inputs)[0]->read())[0], 5);
  EXPECT_EQ(host.as<float>()[0], 0);
}

// State that comes out as it went in, and a copy of it; arrays without elements; no input at
// all.
TEST_P(PjrtEngine, TakesOddGraphs) {
  const auto mine = engine();
  auto same = std::make_shared<graph::Graph>("same");
  const Value state = same->input("state", DType::f32, {8});
  const Value none = same->input("none", DType::f32, {0, 3});
  same->output("copy", state);
  same->output("state", state, "state");
  same->output("none", add(none, none));
  const auto program = mine->compile(same);
  std::vector<BufferRef> inputs{mine->upload(counting({8})),
                                mine->upload(Tensor(DType::f32, {0, 3}))};
  for (int i = 0; i < 2; ++i) {
    const auto out = program->run(inputs);
    EXPECT_EQ(floats(out[0]->read()), floats(counting({8})));
    EXPECT_EQ(out[2]->read().shape(), Shape({0, 3}));
    inputs[0] = out[1];
  }
  EXPECT_EQ(floats(inputs[0]->read())[7], 7);

  auto constant = std::make_shared<graph::Graph>("constant");
  constant->output("one", graph::scalar(*constant, 1.0f));
  EXPECT_EQ(mine->compile(constant)->run({})[0]->read().as<float>()[0], 1);
}

TEST_P(PjrtEngine, CountsOneTripForTheResultsOfARun) {
  const auto mine = engine();
  const auto program = mine->compile(affine());
  const std::vector<BufferRef> inputs{mine->upload(counting({2, 3})),
                                      mine->upload(counting({4, 3}))};
  EXPECT_EQ(mine->i64("round_trips"), 0);
  const auto first = program->run(inputs), second = program->run(inputs);
  EXPECT_EQ(mine->i64("round_trips"), 0); // nothing was read
  first[0]->read();
  first[1]->read();
  EXPECT_EQ(mine->i64("round_trips"), 1);
  second[1]->read();
  EXPECT_EQ(mine->i64("round_trips"), 2);
  inputs[0]->read();
  EXPECT_EQ(mine->i64("round_trips"), 3);
}

TEST_P(PjrtEngine, StopsBeforeALaunch) {
  const auto mine = engine();
  const auto program = mine->compile(counter());
  std::vector<BufferRef> inputs{mine->upload(counting({256})),
                                mine->upload(Tensor(DType::f32, {1}))};
  Task task;
  task.cancel();
  expect_error(Code::cancelled, "", [&] { program->run(inputs, &task); });
  EXPECT_EQ(floats(inputs[0]->read())[3], 3); // nothing was lost
  Task late;
  late.set_deadline(0);
  expect_error(Code::deadline_exceeded, "", [&] { program->run(inputs, &late); });
}

TEST_P(PjrtEngine, CountsMemoryOfArrays) {
  const auto mine = engine();
  EXPECT_EQ(mine->i64("memory_used"), 0);
  {
    const BufferRef a = mine->upload(counting({1000})), b = mine->upload(counting({10}));
    EXPECT_EQ(mine->i64("memory_used"), 4040);
    EXPECT_EQ(a->memory_bytes(), 4000);
  }
  EXPECT_EQ(mine->i64("memory_used"), 0);
  EXPECT_EQ(mine->i64("memory_peak"), 4040);
}

TEST_P(PjrtEngine, DescribesItselfAndItsPrograms) {
  const auto mine = engine();
  const auto program = mine->compile(counter());
  EXPECT_NE(program->text("stablehlo").find("tf.aliasing_output = 0"), std::string::npos);
  EXPECT_FALSE(program->text("optimized").empty());
  expect_error(Code::not_found, "no form named \"hlo\" of the text of a program",
               [&] { program->text("hlo"); });
  const graph::CompiledReport& compiled = program->plan().compiled;
  EXPECT_TRUE(compiled.known);
  EXPECT_FALSE(compiled.from_cache);
  EXPECT_GT(compiled.seconds, 0);
  EXPECT_EQ(compiled.argument_bytes, 1028);

  const Json info = mine->describe();
  EXPECT_EQ(info["kind"], "pjrt");
  EXPECT_EQ(info["platform"], "cpu");
  EXPECT_EQ(info["plugin"]["path"], path());
  EXPECT_EQ(info["device"], "cpu:0");
  EXPECT_EQ(info["compiles"], 1);
  EXPECT_EQ(info["devices"].size(), static_cast<size_t>(mine->device_count()));
  expect_error(Code::not_found, "no number named \"compile\"", [&] { mine->i64("compile"); });
  expect_error(Code::failed_precondition, "threads", [&] { mine->set_i64("threads", 2); });
  mine->set_i64("pjrt.in_flight", 5);
  EXPECT_EQ(mine->i64("pjrt.in_flight"), 5);
  expect_error(Code::out_of_range, "0 is not between", [&] { mine->set_i64("pjrt.in_flight", 0); });
}

TEST_P(PjrtEngine, UsesTheDeviceOfItsOptions) {
  Options options = engine_options(path());
  options.set_i64("pjrt.device", 2);
  const auto mine = make_engine(options);
  const auto program = mine->compile(counter());
  std::vector<BufferRef> inputs{mine->upload(counting({256})),
                                mine->upload(Tensor(DType::f32, {1}))};
  const auto out = program->run(inputs);
  const Array& array = inside(out[0]).array();
  EXPECT_EQ(inside(out[0]).engine(), inside(inputs[1]).engine());
  EXPECT_EQ(array.device(), inside(inputs[1]).array().device());
  EXPECT_EQ(mine->describe()["device"], "cpu:2");
  options.set_i64("pjrt.device", 9);
  expect_error(Code::out_of_range, "pjrt.device 9 does not exist", [&] { make_engine(options); });
}

TEST_P(PjrtEngine, SecondStartCompilesNothing) {
  const test::TempFolder folder;
  for (int start = 0; start < 2; ++start) {
    const auto mine = make_engine(engine_options(path(), folder.path()));
    const auto program = mine->compile(counter());
    EXPECT_EQ(mine->i64("compiles"), start == 0 ? 1 : 0);
    EXPECT_EQ(mine->i64("cache_hits"), start == 0 ? 0 : 1);
    EXPECT_EQ(program->plan().compiled.from_cache, start == 1);
    EXPECT_GE(program->plan().compiled.alias_bytes, 1024); // loaded programs donate too
    std::vector<BufferRef> inputs{mine->upload(counting({256})),
                                  mine->upload(Tensor::from<float>({1}, std::vector<float>{1}))};
    EXPECT_EQ(floats(program->run(inputs)[0]->read())[1], 2);
  }
}

TEST_P(PjrtEngine, RunsFromManyThreads) {
  const auto mine = engine();
  const auto program = mine->compile(affine());
  const BufferRef w = mine->upload(counting({4, 3}));
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<BufferRef> inputs{mine->upload(counting({2, 3}, static_cast<float>(t))), w};
      for (int i = 0; i < 20; ++i) {
        const auto out = program->run(inputs);
        right += floats(out[0]->read())[0] == static_cast<float>(t + 1 + 2 * (t + 2));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 80);
}

TEST_P(PjrtEngine, MeasuresItsPeakOnce) {
  const auto mine = engine();
  const double peak = mine->peak_flops();
  EXPECT_GT(peak, 1e8);
  EXPECT_EQ(mine->peak_flops(), peak);
}

// Plugins of hardware that this machine may lack.
TEST(PjrtEngineWithoutDevices, IsUnavailable) {
  for (const char* file : {"libtpu.so", "xla_cuda_plugin.so"}) {
    const std::string plugin = plugin_path(file);
    if (!file_exists(plugin)) continue;
    try {
      make_engine(engine_options(plugin)); // the hardware is there
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unavailable) << error.text();
      EXPECT_NE(error.text().find("finds no device: PJRT_Client_Create: "), std::string::npos)
          << error.text();
    }
  }
}

DLLM_ON_PLUGINS(PjrtEngine);

} // namespace
} // namespace dllm::pjrt
