#include "decode/array/solver.h"
#include "graph/ops.h"

namespace dllm::decode {
namespace {

class Ddim final : public Solver {
public:
  SolverResult step(const SolverStep& s) const override {
    const Denoised made = s.denoise(s.array, s.now.time);
    const graph::Value noise = graph::divide(
        graph::subtract(s.array, graph::multiply(s.now.signal, made.clean)), s.now.sigma);
    return {graph::add(graph::multiply(s.next.signal, made.clean),
                       graph::multiply(s.next.sigma, noise)),
            made.hidden};
  }
};

} // namespace

std::unique_ptr<Solver> ddim_solver() {
  return std::make_unique<Ddim>();
}

} // namespace dllm::decode
