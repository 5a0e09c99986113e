#include "decode/array/solver.h"
#include "graph/ops.h"

namespace dllm::decode {
namespace {

using graph::Value;

// Half of the logarithm of the ratio of signal to noise; infinite without either.
Value half_log_snr(const ArrayLevel& level) {
  return graph::subtract(graph::log(level.signal), graph::log(level.sigma));
}

// DPM-Solver++ 2M (Lu et al. 2022). With l the half of the log ratio and h = l_next - l, a step is
//   sigma_next / sigma array + (signal_next - signal sigma_next / sigma) clean',
//   clean' = clean + (clean - previous) h / (2 (l - l_before)),
// so it is DDIM at an extrapolated clean array. The first and the last step take `clean` itself, as
// the authors do when the last level has no noise.
class DpmPlusPlus2M final : public Solver {
public:
  bool uses_previous() const override { return true; }
  SolverResult step(const SolverStep& s) const override {
    graph::Graph& graph = *s.array.numbers.graph;
    const Denoised made = s.denoise(s.array);
    const Value zero = graph::scalar(graph, 0.0f);
    const Value here = half_log_snr(s.array.level);
    const Value ahead = graph::subtract(half_log_snr(s.next), here),
                behind = graph::subtract(here, half_log_snr(s.before));
    const Value ratio = graph::divide(ahead, graph::multiply(graph::scalar(graph, 2.0f), behind));
    // Levels before or after a jump to infinity, and equal levels, have no slope.
    const Value has_slope =
        graph::logical_and(graph::greater(s.array.has_previous, zero), graph::is_finite(ratio));
    const Value factor = graph::select(has_slope, ratio, graph::full(graph, ratio.shape(), 0.0f));
    const Value slope = graph::multiply(factor, graph::subtract(made.clean, s.array.previous));
    const Value lower = graph::divide(s.next.sigma, s.array.level.sigma);
    const Value weight =
        graph::subtract(s.next.signal, graph::multiply(s.array.level.signal, lower));
    return {graph::add(graph::multiply(lower, s.array.numbers),
                       graph::multiply(weight, graph::add(made.clean, slope))),
            made};
  }
};

} // namespace

SolverKind solver_files::dpmpp_2m() {
  return {"dpmpp_2m", new_solver<DpmPlusPlus2M>};
}

} // namespace dllm::decode
