#include "decode/array/solver.h"
#include "graph/ops.h"

namespace dllm::decode {
namespace {

using graph::Value;

// Both solve the ODE d array = clean d signal + noise d sigma, whose arrays have the distributions
// of the levels. A level without signal needs no other rule. For flow matching, where signal = 1 -
// t and sigma = t, it is d array = (noise - clean) dt.

// Returns the change of the array from its level to `next`.
Value change_of(const NoisyArray& array, const ArrayLevel& next, Value clean, Value noise) {
  return graph::add(graph::multiply(graph::subtract(next.signal, array.level.signal), clean),
                    graph::multiply(graph::subtract(next.sigma, array.level.sigma), noise));
}

// Euler's method: the noise and the clean array stay as they are here. The result is DDIM's, with
// other rounding.
class Euler final : public Solver {
public:
  SolverResult step(const SolverStep& s) const override {
    const Denoised made = s.denoise(s.array);
    const Value noise = implied_noise(s.array, made.clean);
    return {graph::add(s.array.numbers, change_of(s.array, s.next, made.clean, noise)), made};
  }
};

// Heun's method (Karras et al. 2022): the mean of the changes that both ends of a step ask for. The
// step to sigma 0 is Euler's, because noise is not known there.
class Heun final : public Solver {
public:
  int64_t evaluations() const override { return 2; }
  SolverResult step(const SolverStep& s) const override {
    graph::Graph& graph = *s.array.numbers.graph;
    const Denoised made = s.denoise(s.array);
    const Value noise = implied_noise(s.array, made.clean);
    const Value first = change_of(s.array, s.next, made.clean, noise);
    const Value some = graph::full(graph, s.array.has_previous.shape(), 1.0f);
    const NoisyArray end{graph::add(s.array.numbers, first), s.next, made.clean, some};
    const Value clean = s.denoise(end).clean;
    const Value second = change_of(s.array, s.next, clean, implied_noise(end, clean));
    const Value mean = graph::multiply(graph::scalar(graph, 0.5f), graph::add(first, second));
    const Value is_last = graph::equal(s.next.sigma, graph::scalar(graph, 0.0f));
    return {graph::add(s.array.numbers, graph::select(is_last, first, mean)), made};
  }
};

} // namespace

SolverKind solver_files::euler() {
  return {"euler", new_solver<Euler>};
}

SolverKind solver_files::heun() {
  return {"heun", new_solver<Heun>};
}

} // namespace dllm::decode
