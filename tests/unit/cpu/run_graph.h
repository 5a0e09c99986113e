#pragma once
// Compiles and runs graphs on an engine of their own.

#include "base/error.h"
#include "cpu/engine.h"
#include "graph/engine.h"
#include "graph/graph.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace dllm::cpu {

inline std::shared_ptr<graph::Engine> test_engine(int64_t threads = 1, const char* check = "none",
                                                  const char* arithmetic = "f32") {
  Options options(graph::engine_schema());
  options.set_i64("threads", threads);
  options.set_str("check", check);
  options.set_str("arithmetic", arithmetic);
  return make_engine(options);
}

inline std::vector<graph::BufferRef> upload_all(graph::Engine& engine,
                                                const std::vector<Tensor>& inputs) {
  std::vector<graph::BufferRef> buffers;
  for (const Tensor& input : inputs) buffers.push_back(engine.upload(input));
  return buffers;
}

inline std::vector<Tensor> read_all(const std::vector<graph::BufferRef>& buffers) {
  std::vector<Tensor> tensors;
  for (const graph::BufferRef& buffer : buffers) tensors.push_back(buffer->read());
  return tensors;
}

inline std::vector<Tensor> run_graph(graph::Engine& engine,
                                     std::shared_ptr<const graph::Graph> graph,
                                     const std::vector<Tensor>& inputs) {
  return read_all(engine.compile(std::move(graph))->run(upload_all(engine, inputs)));
}

inline std::vector<float> floats(const Tensor& tensor) {
  const auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

// The error that `run` must throw.
template <class F> Error thrown_by(F&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(Code::ok, "");
}

} // namespace dllm::cpu
