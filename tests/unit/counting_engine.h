#pragma once
// An engine over another that counts what arrays cost, and lets a test act, or throw, at the
// moments of a run.

#include "graph/engine.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace dllm::test {

struct Watch {
  std::atomic<int64_t> reads{0};      // of arrays to the host
  std::atomic<int64_t> read_bytes{0}; // of those
  std::atomic<int64_t> uploads{0};
  std::function<void()> at_compile; // each may be empty; this one acts once, at the next compile
  std::function<void()> before_run; // the inputs are bound
  std::function<void()> after_run;  // the outputs are not returned yet
  std::function<void()> at_find;    // before the search for what is not finite
};

class CountedBuffer final : public graph::Buffer {
public:
  CountedBuffer(std::shared_ptr<Watch> watch, graph::BufferRef inner)
      : watch_(std::move(watch)), inner_(std::move(inner)) {}
  const Shape& shape() const override { return inner_->shape(); }
  DType dtype() const override { return inner_->dtype(); }
  int64_t memory_bytes() const override { return inner_->memory_bytes(); }
  Tensor read(const Task* task) const override {
    ++watch_->reads;
    watch_->read_bytes += shape().count() * dtype_size(dtype());
    return inner_->read(task);
  }
  const graph::BufferRef& inner() const { return inner_; }

private:
  std::shared_ptr<Watch> watch_;
  graph::BufferRef inner_;
};

class CountedProgram final : public graph::Program {
public:
  CountedProgram(std::shared_ptr<Watch> watch, std::shared_ptr<graph::Program> inner)
      : watch_(std::move(watch)), inner_(std::move(inner)) {}
  const graph::Graph& graph() const override { return inner_->graph(); }
  const graph::PlanReport& plan() const override { return inner_->plan(); }
  // Donated inputs are held here too, so the inner engine copies them.
  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs, const Task* task,
                                    graph::StopRule rule) override {
    std::vector<graph::BufferRef> given, made;
    for (const graph::BufferRef& input : inputs)
      given.push_back(static_cast<const CountedBuffer&>(*input).inner());
    if (watch_->before_run) watch_->before_run();
    for (graph::BufferRef& output : inner_->run(given, task, rule))
      made.push_back(std::make_shared<CountedBuffer>(watch_, std::move(output)));
    if (watch_->after_run) watch_->after_run();
    return made;
  }
  std::string find_non_finite(std::span<const graph::BufferRef>, const Task*) override {
    if (watch_->at_find) watch_->at_find();
    return {};
  }

private:
  std::shared_ptr<Watch> watch_;
  std::shared_ptr<graph::Program> inner_;
};

class CountingEngine final : public graph::Engine {
public:
  explicit CountingEngine(std::shared_ptr<graph::Engine> inner) : inner_(std::move(inner)) {}
  std::string kind() const override { return "counting"; }
  std::shared_ptr<graph::Program> compile(std::shared_ptr<const graph::Graph> graph) override {
    if (const auto act = std::exchange(watch->at_compile, nullptr)) act();
    return std::make_shared<CountedProgram>(watch, inner_->compile(std::move(graph)));
  }
  graph::BufferRef upload(const Tensor& tensor, bool share) override {
    ++watch->uploads;
    return std::make_shared<CountedBuffer>(watch, inner_->upload(tensor, share));
  }
  graph::BufferRef upload_weight(const Tensor& tensor, bool keep_plain, const Task* task) override {
    ++watch->uploads;
    return std::make_shared<CountedBuffer>(watch, inner_->upload_weight(tensor, keep_plain, task));
  }
  int64_t device_count() const override { return 1; }
  std::string device_name(int64_t) const override { return "counting:0"; }
  Json describe() const override { return inner_->describe(); }
  void set_i64(std::string_view key, int64_t value) override { inner_->set_i64(key, value); }
  int64_t i64(std::string_view key) const override { return inner_->i64(key); }
  double peak_flops() override { return inner_->peak_flops(); }
  void trim() override {}

  const std::shared_ptr<Watch> watch = std::make_shared<Watch>();

private:
  std::shared_ptr<graph::Engine> inner_;
};

} // namespace dllm::test
