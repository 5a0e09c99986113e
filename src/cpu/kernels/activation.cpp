// act(x) and act(gate) * up, and their gradients.

#include "base/error.h"
#include "base/named_table.h"
#include "cpu/kernel.h"
#include "cpu/kernels/rows/rows.h"

#include <string>

namespace dllm::cpu {
namespace {

Activation activation_from_name(const std::string& name) {
  static constexpr std::pair<std::string_view, Activation> kNames[] = {
      {"silu", Activation::silu},
      {"gelu", Activation::gelu},
      {"gelu_tanh", Activation::gelu_tanh},
      {"relu", Activation::relu}};
  return need_named(kNames, name, kEntryName, {"activation", "", "", Code::internal}).second;
}

Kernel make_activation(const CompileInfo& info) {
  const Activation kind = activation_from_name(info.node.attributes.text("kind"));
  const int64_t count = info.input(0).shape.count();
  Kernel kernel;
  kernel.may_overwrite = {0};
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    float* y = call.outputs[0].out<float>();
    split(call.pool, count, grain_of(4), [&](int64_t begin, int64_t end) {
      math.activation(kind, x + begin, end - begin, y + begin);
    });
  };
  return kernel;
}

// x, dy -> dx
Kernel make_activation_grad(const CompileInfo& info) {
  const Activation kind = activation_from_name(info.node.attributes.text("kind"));
  const int64_t count = info.input(0).shape.count();
  Kernel kernel;
  kernel.may_overwrite = {0, 1};
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    const float* dy = call.inputs[1].in<float>();
    float* dx = call.outputs[0].out<float>();
    split(call.pool, count, grain_of(6), [&](int64_t begin, int64_t end) {
      math.activation_grad(kind, x + begin, dy + begin, end - begin, dx + begin);
    });
  };
  return kernel;
}

Kernel make_gated_activation(const CompileInfo& info) {
  const Activation kind = activation_from_name(info.node.attributes.text("kind"));
  const int64_t count = info.input(0).shape.count();
  Kernel kernel;
  kernel.may_overwrite = {0};
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* gate = call.inputs[0].in<float>();
    const float* up = call.inputs[1].in<float>();
    float* y = call.outputs[0].out<float>();
    split(call.pool, count, grain_of(4), [&](int64_t begin, int64_t end) {
      math.gated(kind, gate + begin, up + begin, end - begin, y + begin);
    });
  };
  return kernel;
}

// gate, up, dy -> dgate, dup
Kernel make_gated_activation_grad(const CompileInfo& info) {
  const Activation kind = activation_from_name(info.node.attributes.text("kind"));
  const int64_t count = info.input(0).shape.count();
  Kernel kernel;
  kernel.may_overwrite = {0, 1};
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* gate = call.inputs[0].in<float>();
    const float* up = call.inputs[1].in<float>();
    const float* dy = call.inputs[2].in<float>();
    float* dgate = call.outputs[0].out<float>();
    float* dup = call.outputs[1].out<float>();
    split(call.pool, count, grain_of(6), [&](int64_t begin, int64_t end) {
      math.gated_grad(kind, gate + begin, up + begin, dy + begin, end - begin, dgate + begin,
                      dup + begin);
    });
  };
  return kernel;
}

constexpr KernelEntry kActivationKernels[] = {
    {"activation", make_activation},
    {"activation_grad", make_activation_grad},
    {"gated_activation", make_gated_activation},
    {"gated_activation_grad", make_gated_activation_grad},
};

} // namespace

KernelList activation_kernels() {
  return kActivationKernels;
}

} // namespace dllm::cpu
