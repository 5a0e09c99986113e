#pragma once
// The engine on the fake plugin: what its results are there is written in
// tests/fake_plugin/README.md.

#include "graph/engine.h"
#include "graph/ops.h"
#include "pjrt/engine.h"
#include "unit/pjrt/fake/fake_plugin.h"

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace dllm::pjrt {

using graph::BufferRef;

inline constexpr const char* kExecute = "PJRT_LoadedExecutable_Execute";

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline Options fake_options(const FakePlugin& fake, const std::string& cache = "off",
                            int64_t in_flight = 2) {
  Options options(graph::engine_schema());
  options.set_str("kind", "pjrt");
  options.set_str("plugin", fake.path());
  options.set_str("pjrt.cache", cache);
  options.set_i64("pjrt.in_flight", in_flight);
  return options;
}

inline std::shared_ptr<graph::Engine> fake_engine(const FakePlugin& fake, int64_t in_flight = 2) {
  return make_engine(fake_options(fake, "off", in_flight));
}

// state + step, in place, and a loss. On the fake plugin the state stays what it was and the loss
// is the step.
inline std::shared_ptr<graph::Graph> counter(int64_t size = 256) {
  auto made = std::make_shared<graph::Graph>("counter");
  const graph::Value state = made->input("state", DType::f32, {size});
  const graph::Value step = made->input("step", DType::f32, {1});
  made->output("state", add(state, step), "state");
  made->output("loss", add(step, step));
  return made;
}

// state + step in place, the state cut over fsdp, and a loss that is equal on all ranks: on the
// fake plugin the step.
inline std::shared_ptr<graph::Graph> cut_counter() {
  const graph::AxisSet fsdp(graph::Axis::fsdp);
  auto made = std::make_shared<graph::Graph>("cut_counter");
  const graph::Value state = made->input("state", {Shape{64}, DType::f32, fsdp});
  const graph::Value step = made->input("step", DType::f32, {1});
  made->output("state", add(state, vary(step, fsdp)), "state");
  made->output("loss", add(step, step));
  return made;
}

inline Tensor counting(Shape shape, float first = 0) {
  Tensor made(DType::f32, std::move(shape));
  std::iota(made.mutable_as<float>().begin(), made.mutable_as<float>().end(), first);
  return made;
}

inline bool same_bytes(const Tensor& a, const Tensor& b) {
  const auto size = static_cast<size_t>(a.byte_size());
  return a.byte_size() == b.byte_size() && std::memcmp(a.bytes(), b.bytes(), size) == 0;
}

// The inputs of counter().
inline std::vector<BufferRef> counter_inputs(graph::Engine& engine, int64_t size = 256) {
  return {engine.upload(counting({size})), engine.upload(counting({1}, 7))};
}

} // namespace dllm::pjrt
