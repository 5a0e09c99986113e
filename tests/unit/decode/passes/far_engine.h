#pragma once
// The CPU engine as if it were far away: it says that it runs ahead, counts what is read back, and
// lets a test change what a program answers.

#include "cpu/engine.h"
#include "graph/engine.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dllm::decode {

class FarEngine final : public graph::Engine {
public:
  // Changes an output of a program by name of program and output.
  using Tamper =
      std::function<void(const std::string& program, const std::string& output, Tensor& numbers)>;

  FarEngine() : near_(cpu::make_engine(Options(graph::engine_schema()))) {}

  int64_t reads = 0;
  std::vector<std::string> runs; // names of the graphs
  Tamper tamper;

  std::string kind() const override { return "far"; }
  bool runs_ahead() const override { return true; }
  std::shared_ptr<graph::Program> compile(std::shared_ptr<const graph::Graph> graph) override {
    return std::make_shared<FarProgram>(*this, near_->compile(std::move(graph)));
  }
  graph::BufferRef upload(const Tensor& tensor, bool share) override {
    return near_->upload(tensor, share);
  }
  graph::BufferRef upload_weight(const Tensor& tensor, bool keep_plain, const Task* task) override {
    return near_->upload_weight(tensor, keep_plain, task);
  }
  int64_t device_count() const override { return 1; }
  std::string device_name(int64_t) const override { return "far"; }
  Json describe() const override { return near_->describe(); }
  void set_i64(std::string_view key, int64_t value) override { near_->set_i64(key, value); }
  int64_t i64(std::string_view key) const override { return near_->i64(key); }
  double peak_flops() override { return near_->peak_flops(); }
  void trim() override { near_->trim(); }

private:
  class FarBuffer final : public graph::Buffer {
  public:
    FarBuffer(FarEngine& engine, graph::BufferRef near, std::string program, std::string output)
        : engine_(engine), near(std::move(near)), program_(std::move(program)),
          output_(std::move(output)) {}
    const Shape& shape() const override { return near->shape(); }
    DType dtype() const override { return near->dtype(); }
    int64_t memory_bytes() const override { return near->memory_bytes(); }
    Tensor read(const Task* task) const override {
      ++engine_.reads;
      Tensor numbers = near->read(task);
      if (!engine_.tamper) return numbers;
      Tensor own(numbers.dtype(), numbers.shape());
      std::copy_n(numbers.bytes(), numbers.byte_size(), own.mutable_bytes());
      engine_.tamper(program_, output_, own);
      return own;
    }

  private:
    FarEngine& engine_;

  public:
    graph::BufferRef near;

  private:
    std::string program_, output_;
  };

  class FarProgram final : public graph::Program {
  public:
    FarProgram(FarEngine& engine, std::shared_ptr<graph::Program> near)
        : engine_(engine), near_(std::move(near)) {}
    const graph::Graph& graph() const override { return near_->graph(); }
    const graph::PlanReport& plan() const override { return near_->plan(); }
    std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs, const Task* task,
                                      graph::StopRule rule) override {
      engine_.runs.push_back(graph().name());
      std::vector<graph::BufferRef> given;
      for (const graph::BufferRef& input : inputs) {
        const auto* far = dynamic_cast<const FarBuffer*>(input.get());
        given.push_back(far != nullptr ? far->near : input);
      }
      std::vector<graph::BufferRef> made = near_->run(given, task, rule);
      for (size_t i = 0; i < made.size(); ++i) {
        made[i] = std::make_shared<FarBuffer>(engine_, made[i], graph().name(),
                                              graph().outputs()[i].name);
      }
      return made;
    }

  private:
    FarEngine& engine_;
    std::shared_ptr<graph::Program> near_;
  };

  std::shared_ptr<graph::Engine> near_;
};

} // namespace dllm::decode
