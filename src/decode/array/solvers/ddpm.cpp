#include "decode/array/solver.h"
#include "graph/ops.h"

namespace dllm::decode {
namespace {

using graph::Value;

// DDPM (Ho et al. 2020): draws the array at the next level from its distribution given this array
// and the clean one. With f = signal / signal of the next level and v = sigma^2 - (f sigma_next)^2,
//   mean = f sigma_next^2 / sigma^2 array + signal_next v / sigma^2 clean,
//   variance = v sigma_next^2 / sigma^2,
// which holds at any two levels of a Gaussian process (Kingma et al. 2021).
class Ddpm final : public Solver {
public:
  bool uses_noise() const override { return true; }
  SolverResult step(const SolverStep& s) const override {
    graph::Graph& graph = *s.array.numbers.graph;
    const Denoised made = s.denoise(s.array);
    const auto square = [](Value x) { return graph::multiply(x, x); };
    // A level without signal is followed by one with signal or by one that is equal.
    const Value least = graph::scalar(graph, 1e-20f);
    const Value kept = graph::divide(s.array.level.signal, graph::maximum(s.next.signal, least));
    // sigma_next / sigma, and the part of the noise that is drawn anew.
    const Value lower = graph::divide(s.next.sigma, s.array.level.sigma);
    const Value fresh = graph::maximum(
        graph::subtract(graph::scalar(graph, 1.0f), square(graph::multiply(kept, lower))),
        graph::scalar(graph, 0.0f));
    const Value mean =
        graph::add(graph::multiply(graph::multiply(kept, square(lower)), s.array.numbers),
                   graph::multiply(graph::multiply(s.next.signal, fresh), made.clean));
    const Value deviation = graph::multiply(graph::sqrt(fresh), s.next.sigma);
    return {graph::add(mean, graph::multiply(deviation, s.noise)), made};
  }
};

// The step that dLLM-castlehill calls "ddpm": DDIM with the noise 0.8 e + 0.2 n, where e is what
// the array implies and n is new.
class DdpmMix final : public Solver {
public:
  bool uses_noise() const override { return true; }
  SolverResult step(const SolverStep& s) const override {
    graph::Graph& graph = *s.array.numbers.graph;
    const Denoised made = s.denoise(s.array);
    const Value noise =
        graph::add(graph::multiply(graph::scalar(graph, 0.8f), implied_noise(s.array, made.clean)),
                   graph::multiply(graph::scalar(graph, 0.2f), s.noise));
    return {at_level(s.next, made.clean, noise), made};
  }
};

} // namespace

SolverKind solver_files::ddpm() {
  return {"ddpm", new_solver<Ddpm>};
}

SolverKind solver_files::ddpm_mix() {
  return {"ddpm_mix", new_solver<DdpmMix>};
}

} // namespace dllm::decode
