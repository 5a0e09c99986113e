#include "runtime/feed.h"

#include <fmt/format.h>

namespace dllm::runtime {

std::string feed_signature(const Batch& feed) {
  std::string text;
  for (const auto& [name, array] : feed) {
    text += fmt::format("{}:{}{};", name, dtype_name(array.dtype()), array.shape().text());
  }
  return text;
}

std::map<std::string, graph::Value> feed_inputs(graph::Graph& graph, const Batch& feed) {
  std::map<std::string, graph::Value> arrays;
  for (const auto& [name, array] : feed) {
    arrays[name] = graph.input("batch:" + name, array.dtype(), array.shape());
  }
  return arrays;
}

}  // namespace dllm::runtime
