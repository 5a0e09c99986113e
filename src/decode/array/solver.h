#pragma once
// A solver takes an array of noise to an array without noise, level after level. It is a function
// of a program's graph, so the program takes all steps by itself. A new solver is a class and a
// function in a file of this folder, and the function's name twice here.

#include "graph/graph.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dllm::decode {

// The noise of an array at one time: array = signal * clean + sigma * noise, where `noise` is
// standard normal. All are f32(rows, 1, 1), so that they broadcast over an array.
struct ArrayLevel {
  graph::Value time; // in [0, 1]: 1 is the noisiest, 0 has no noise
  graph::Value signal, sigma;
};

// An array with noise, and what is known about it.
struct NoisyArray {
  graph::Value numbers; // f32(rows, length, width)
  ArrayLevel level;
  // f32(rows, length, width): the last Denoised::clean of these rows, for self-conditioning; zeros
  // where has_previous f32(rows, 1, 1) is 0.
  graph::Value previous, has_previous;
};

// The result of the model for an array.
struct Denoised {
  graph::Value clean; // f32(rows, length, width): the expected array without noise
  // f32(rows, window, ArrayRule::states_width): what ArrayRule::read reads; undefined: it reads
  // `clean`.
  graph::Value states = {};
};

struct SolverStep {
  NoisyArray array; // at the level now
  ArrayLevel next;
  ArrayLevel before;  // the level of array.previous, of a step before this one
  graph::Value noise; // f32(rows, length, width), standard normal; undefined unless uses_noise
  // Runs the model.
  std::function<Denoised(const NoisyArray& array)> denoise;
};

struct SolverResult {
  graph::Value array; // at level `next`
  // The evaluation that gives the text of the step. Its `clean` is `previous` in the next step.
  Denoised made;
};

class Solver {
public:
  virtual ~Solver() = default;
  virtual bool uses_noise() const { return false; }
  virtual bool uses_previous() const { return false; } // SolverStep::array.previous
  // Evaluations of the model in one step.
  virtual int64_t evaluations() const { return 1; }
  virtual SolverResult step(const SolverStep& step) const = 0;
};

// Returns the noise that the array implies: (array - signal * clean) / sigma.
graph::Value implied_noise(const NoisyArray& array, graph::Value clean);
// Returns signal * clean + sigma * noise.
graph::Value at_level(const ArrayLevel& level, graph::Value clean, graph::Value noise);

struct SolverKind {
  const char* name;
  std::unique_ptr<Solver> (*make)();
};
template <class T> std::unique_ptr<Solver> new_solver() {
  return std::make_unique<T>();
}

std::vector<std::string> solver_names();
// Fails with not_found and the nearest name.
std::unique_ptr<Solver> make_solver(const std::string& name);

namespace solver_files {

SolverKind ddim();
SolverKind ddpm();
SolverKind ddpm_mix();
SolverKind dpmpp_2m();
SolverKind euler();
SolverKind heun();

inline constexpr SolverKind (*kTable[])() = {ddim, ddpm, ddpm_mix, dpmpp_2m, euler, heun};

} // namespace solver_files

} // namespace dllm::decode
