#pragma once
// The CPU engine as one that runs ahead: a run is queued and takes place when a caller reads what
// it, or a run behind it, makes.

#include "../tiny.h"
#include "base/error.h"
#include "cpu/engine.h"
#include "graph/engine.h"

#include <deque>
#include <functional>

namespace dllm::train {

struct LateQueue {
  std::deque<std::function<void()>> runs;
  int64_t started = 0, executed = 0;
  int64_t fail_at = -1; // this run, counted from 0, finds the device gone

  // Runs start in the order in which they were queued.
  void advance(const std::function<bool()>& done) {
    while (!done()) {
      const auto run = std::move(runs.front());
      runs.pop_front();
      run();
    }
  }
};

class LateBuffer final : public graph::Buffer {
public:
  LateBuffer(std::shared_ptr<LateQueue> queue, graph::ValueType type)
      : queue_(std::move(queue)), type_(std::move(type)) {}
  const Shape& shape() const override { return type_.shape; }
  DType dtype() const override { return type_.dtype; }
  int64_t memory_bytes() const override { return type_.shape.count() * dtype_size(type_.dtype); }
  Tensor read(const Task*) const override {
    queue_->advance([this] { return there != nullptr || !error.empty(); });
    if (!error.empty()) fail(Code::unavailable, "{}", error);
    return there->read();
  }

  graph::BufferRef there; // null: not computed yet
  std::string error;

private:
  std::shared_ptr<LateQueue> queue_;
  graph::ValueType type_;
};

class LateProgram final : public graph::Program {
public:
  LateProgram(std::shared_ptr<LateQueue> queue, std::shared_ptr<graph::Program> inner)
      : queue_(std::move(queue)), inner_(std::move(inner)),
        donated_(inner_->graph().inputs().size()) {
    for (const graph::GraphOutput& output : graph().outputs()) {
      if (output.donated_input >= 0) donated_[static_cast<size_t>(output.donated_input)] = true;
    }
  }
  const graph::Graph& graph() const override { return inner_->graph(); }
  const graph::PlanReport& plan() const override { return inner_->plan(); }

  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs, const Task*,
                                    graph::StopRule) override {
    std::vector<graph::BufferRef> given(inputs.begin(), inputs.end()), made;
    for (const graph::GraphOutput& output : graph().outputs())
      made.push_back(std::make_shared<LateBuffer>(queue_, graph().type(output.value)));
    const int64_t number = queue_->started++;
    queue_->runs.emplace_back(
        [this, given = std::move(given), made, number]() mutable { execute(given, made, number); });
    return made;
  }

private:
  static LateBuffer& late(const graph::BufferRef& buffer) {
    return static_cast<LateBuffer&>(*buffer);
  }

  void execute(std::vector<graph::BufferRef>& given, const std::vector<graph::BufferRef>& made,
               int64_t number) {
    ++queue_->executed;
    std::string error = number == queue_->fail_at ? "the device is lost" : "";
    std::vector<graph::BufferRef> inputs;
    for (size_t i = 0; i < given.size(); ++i) {
      LateBuffer& from = late(given[i]);
      if (!from.error.empty()) error = from.error;
      inputs.push_back(donated_[i] ? std::move(from.there) : from.there);
    }
    std::vector<graph::BufferRef> outputs;
    if (error.empty()) outputs = inner_->run(inputs);
    for (size_t i = 0; i < made.size(); ++i) {
      if (error.empty())
        late(made[i]).there = std::move(outputs[i]);
      else
        late(made[i]).error = error;
    }
  }

  std::shared_ptr<LateQueue> queue_;
  std::shared_ptr<graph::Program> inner_;
  std::vector<bool> donated_;
};

class LateEngine final : public graph::Engine {
public:
  ~LateEngine() override { queue->runs.clear(); } // they hold arrays that hold the queue
  std::string kind() const override { return "late"; }
  bool runs_ahead() const override { return true; }
  std::shared_ptr<graph::Program> compile(std::shared_ptr<const graph::Graph> graph) override {
    programs_.push_back(std::make_shared<LateProgram>(queue, inner_->compile(std::move(graph))));
    return programs_.back(); // queued runs outlive the caller's program
  }
  graph::BufferRef upload(const Tensor& tensor, bool share) override {
    return wrap(inner_->upload(tensor, share));
  }
  graph::BufferRef upload_weight(const Tensor& tensor, bool keep_plain, const Task* task) override {
    return wrap(inner_->upload_weight(tensor, keep_plain, task));
  }
  int64_t device_count() const override { return 1; }
  std::string device_name(int64_t) const override { return "late:0"; }
  Json describe() const override { return inner_->describe(); }
  void set_i64(std::string_view key, int64_t value) override { inner_->set_i64(key, value); }
  int64_t i64(std::string_view key) const override { return inner_->i64(key); }
  double peak_flops() override { return inner_->peak_flops(); }
  void trim() override {}

  const std::shared_ptr<LateQueue> queue = std::make_shared<LateQueue>();

private:
  graph::BufferRef wrap(graph::BufferRef buffer) const {
    auto made =
        std::make_shared<LateBuffer>(queue, graph::ValueType{buffer->shape(), buffer->dtype(), {}});
    made->there = std::move(buffer);
    return made;
  }
  std::shared_ptr<graph::Engine> inner_ = tiny_engine();
  std::vector<std::shared_ptr<graph::Program>> programs_;
};

} // namespace dllm::train
