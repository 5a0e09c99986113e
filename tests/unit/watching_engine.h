#pragma once

#include "graph/engine.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::test {

// An engine that keeps what another compiles for it, as text, and counts uploads.
class WatchingEngine final : public graph::Engine {
public:
  explicit WatchingEngine(std::shared_ptr<graph::Engine> inner) : inner_(std::move(inner)) {}
  std::string kind() const override { return "watching"; }
  std::shared_ptr<graph::Program> compile(std::shared_ptr<const graph::Graph> graph) override {
    compiled.push_back(graph->dump());
    return inner_->compile(std::move(graph));
  }
  graph::BufferRef upload(const Tensor& tensor, bool share) override {
    ++uploads;
    return inner_->upload(tensor, share);
  }
  graph::BufferRef upload_weight(const Tensor& tensor, bool keep_plain, const Task* task) override {
    ++uploads;
    return inner_->upload_weight(tensor, keep_plain, task);
  }
  int64_t device_count() const override { return 1; }
  std::string device_name(int64_t) const override { return "watching:0"; }
  Json describe() const override { return inner_->describe(); }
  void set_i64(std::string_view key, int64_t value) override { inner_->set_i64(key, value); }
  int64_t i64(std::string_view key) const override { return inner_->i64(key); }
  double peak_flops() override { return inner_->peak_flops(); }
  void trim() override {}

  std::vector<std::string> compiled;
  int64_t uploads = 0;

private:
  std::shared_ptr<graph::Engine> inner_;
};

} // namespace dllm::test
