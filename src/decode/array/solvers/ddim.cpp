#include "decode/array/solver.h"

namespace dllm::decode {
namespace {

// DDIM (Song et al. 2021) with eta = 0: keeps the noise that the array implies, and lowers its
// level. Deterministic.
class Ddim final : public Solver {
public:
  SolverResult step(const SolverStep& s) const override {
    const Denoised made = s.denoise(s.array);
    return {at_level(s.next, made.clean, implied_noise(s.array, made.clean)), made};
  }
};

} // namespace

SolverKind solver_files::ddim() {
  return {"ddim", new_solver<Ddim>};
}

} // namespace dllm::decode
