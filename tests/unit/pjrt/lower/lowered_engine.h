#pragma once
// The CPU engine with every program lowered first: what a plugin gets to see, without a plugin.

#include "cpu/engine.h"
#include "graph/engine.h"
#include "pjrt/lower/lower.h"

#include <nlohmann/json.hpp>

#include <memory>

namespace dllm::pjrt {

class LoweredEngine final : public graph::Engine {
public:
  LoweredEngine() {
    Options options(graph::engine_schema());
    options.set_i64("threads", 2);
    cpu_ = cpu::make_engine(options);
  }

  std::string kind() const override { return "cpu"; }
  std::shared_ptr<graph::Program> compile(std::shared_ptr<const graph::Graph> graph) override {
    return cpu_->compile(lower(*graph));
  }
  graph::BufferRef upload(const Tensor& tensor, bool share) override {
    return cpu_->upload(tensor, share);
  }
  graph::BufferRef upload_weight(const Tensor& tensor, bool, const Task*) override {
    return cpu_->upload(tensor, false);
  }
  int64_t device_count() const override { return cpu_->device_count(); }
  std::string device_name(int64_t index) const override { return cpu_->device_name(index); }
  Json describe() const override { return cpu_->describe(); }
  void set_i64(std::string_view key, int64_t value) override { cpu_->set_i64(key, value); }
  int64_t i64(std::string_view key) const override { return cpu_->i64(key); }
  double peak_flops() override { return 1e9; }
  void trim() override { cpu_->trim(); }

private:
  std::shared_ptr<graph::Engine> cpu_;
};

} // namespace dllm::pjrt
