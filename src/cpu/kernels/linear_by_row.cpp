// Products of rows with the matrix that each row chooses. Rows of one matrix are gathered, and are
// one product. The chain of a row does not depend on the other rows.

#include "cpu/kernel.h"
#include "cpu/kernels/expert_groups.h"
#include "cpu/kernels/weight.h"

#include <vector>

namespace dllm::cpu {
namespace {

constexpr size_t kFirstMatrix = 2; // index of the input

// y (rows, out) = x[row] (in) w_i^T for i = choice[row]; 0 where there is no such matrix.
Kernel make_linear_by_row(const CompileInfo& info) {
  ScratchLayout layout;
  const int64_t rows = info.input(0).shape.dim(0), in = info.input(0).shape.dim(1),
                out = info.output(0).shape.dim(1);
  std::vector<WeightOperand> weights;
  for (size_t i = kFirstMatrix; i < info.node.inputs.size(); ++i)
    weights.emplace_back(info, i, kPacked, rows, layout);
  const ExpertShape shape{rows, 1, std::ssize(weights)};
  const int64_t groups_at = ExpertGroups::add(shape, layout);
  const int64_t gathered = layout.add_floats(rows * in);
  const int64_t results = layout.add_floats(rows * out);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.wants.assign(kFirstMatrix, kPlain);
  for (const WeightOperand& weight : weights) kernel.wants.push_back(weight.wants());
  kernel.run = [=](const KernelCall& call) {
    const ExpertGroups groups(shape, call.inputs[1].in<int32_t>(), call.scratch + groups_at);
    float* x = reinterpret_cast<float*>(call.scratch + gathered);
    float* sorted = reinterpret_cast<float*>(call.scratch + results);
    groups.gather(call.inputs[0].in<float>(), in, 1, x, call.pool);
    for (int64_t i = 0; i < shape.experts; ++i) {
      if (groups.size(i) == 0) continue;
      Gemm gemm = weights[static_cast<size_t>(i)].gemm(call);
      gemm.a = x + groups.begin(i) * in;
      gemm.a_stride = in;
      gemm.c = sorted + groups.begin(i) * out;
      gemm.c_stride = out;
      gemm.m = groups.size(i);
      gemm.task = call.pool.task;
      gemm_parallel(gemm, call.pool);
    }
    float* y = call.outputs[0].out<float>();
    split(call.pool, rows, grain_of(out), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t place = groups.place(row);
        if (place >= 0)
          std::copy_n(sorted + place * out, out, y + row * out);
        else
          std::fill_n(y + row * out, out, 0.0f);
      }
    });
  };
  return kernel;
}

constexpr KernelEntry kLinearByRowKernels[] = {{"linear_by_row", make_linear_by_row}};

} // namespace

KernelList linear_by_row_kernels() {
  return kLinearByRowKernels;
}

} // namespace dllm::cpu
