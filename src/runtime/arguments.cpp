#include "runtime/programs.h"

#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dllm::runtime {

Arguments::Arguments(std::shared_ptr<graph::Program> program)
    : program_(std::move(program)), buffers_(program_->graph().inputs().size()),
      owners_(buffers_.size(), nullptr) {}

Arguments::~Arguments() {
  return_donated();
}

size_t Arguments::input(std::string_view name) const {
  const int32_t index = program_->graph().find_input(name);
  if (index < 0) fail(Code::internal, "program {} has no input {}", program_->graph().name(), name);
  return static_cast<size_t>(index);
}

void Arguments::share(size_t input, graph::BufferRef buffer) {
  buffers_[input] = std::move(buffer);
}

void Arguments::donate(size_t input, graph::BufferRef& owner) noexcept {
  buffers_[input] = std::move(owner);
  owner = nullptr;
  owners_[input] = &owner;
}

void Arguments::share_parameters(std::span<const graph::BufferRef> buffers) {
  const auto& inputs = program_->graph().inputs();
  const auto count =
      static_cast<size_t>(std::ranges::count_if(inputs, &graph::GraphInput::is_parameter));
  if (count != buffers.size()) {
    fail_with_hint("make a new decoder after the trainer", Code::failed_precondition,
                   "the model has {} arrays of parameters, had {} when the program was compiled",
                   buffers.size(), count);
  }
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_parameter) continue;
    const graph::BufferRef& buffer = buffers[next++];
    const DType compiled = program_->graph().type(inputs[i].value).dtype;
    if (buffer != nullptr && buffer->dtype() != compiled) {
      fail_with_hint("make a new decoder after the trainer", Code::failed_precondition,
                     "{} is {} now, was {} when the program was compiled", inputs[i].name,
                     dtype_name(buffer->dtype()), dtype_name(compiled));
    }
    share(i, buffer);
  }
}

void Arguments::upload(graph::Engine& engine, const Batch& arrays) {
  upload(engine, std::span(&arrays, 1), {});
}

void Arguments::upload(graph::Engine& engine, std::span<const Batch> feeds, graph::AxisSet axes) {
  constexpr std::string_view kPrefix = "batch:";
  const graph::Graph& graph = program_->graph();
  const auto& inputs = graph.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (buffers_[i] != nullptr || owners_[i] != nullptr) continue;
    std::string_view name = inputs[i].name;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    if (axes.empty() || !graph.type(inputs[i].value).axes.contains(axes)) {
      share(i, engine.upload(feeds[0].at(name), true));
      continue;
    }
    std::vector<Tensor> pieces;
    for (const Batch& feed : feeds) pieces.push_back(feed.at(name));
    share(i, engine.upload_pieces(pieces, axes, true));
  }
}

std::vector<graph::BufferRef> Arguments::run(const Task* task, graph::StopRule rule) {
  std::vector<graph::BufferRef> results;
  try {
    results = program_->run(buffers_, task, rule);
  } catch (...) {
    return_donated();
    throw;
  }
  const auto& outputs = program_->graph().outputs();
  for (size_t o = 0; o < results.size(); ++o) {
    const int32_t donor = outputs[o].donated_input;
    if (donor < 0 || owners_[static_cast<size_t>(donor)] == nullptr) continue;
    buffers_[static_cast<size_t>(donor)] = std::move(results[o]);
    results[o] = nullptr;
  }
  return_donated();
  return results;
}

std::string Arguments::find_non_finite(const Task* task) {
  return program_->find_non_finite(buffers_, task);
}

void Arguments::return_donated() noexcept {
  for (size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i] != nullptr) *std::exchange(owners_[i], nullptr) = std::move(buffers_[i]);
    buffers_[i] = nullptr;
  }
}

std::string feed_signature(const Batch& feed) {
  std::string text;
  for (const auto& [name, array] : feed) {
    text += fmt::format("{}:{}{};", name, dtype_name(array.dtype()), array.shape().text());
  }
  return text;
}

std::map<std::string, graph::Value> feed_inputs(graph::Graph& graph, const Batch& feed,
                                                graph::AxisSet axes) {
  std::map<std::string, graph::Value> arrays;
  for (const auto& [name, array] : feed) {
    arrays[name] = graph.input("batch:" + name, {array.shape(), array.dtype(), axes});
  }
  return arrays;
}

} // namespace dllm::runtime
