#pragma once
// A solver takes an array of noise to an array without noise, level after level. It is a function
// of a program's graph, so the program takes all steps by itself. A new solver is a class and a
// function in a file of this folder, and the function's name here.

#include "graph/graph.h"

#include <functional>
#include <memory>

namespace dllm::decode {

// The noise of an array at one time: array = signal * clean + sigma * noise, where `noise` is
// standard normal. All are f32(rows, 1, 1), so that they broadcast over an array.
struct ArrayLevel {
  graph::Value time; // in [0, 1]: 1 is the noisiest, 0 has no noise
  graph::Value signal, sigma;
};

// The result of the model for an array.
struct Denoised {
  graph::Value clean;  // f32(rows, window, width): the expected array without noise
  graph::Value hidden; // f32(rows * window, hidden): what the head reads, for the text of the step
};

struct SolverStep {
  graph::Value array; // f32(rows, window, width), at level `now`
  ArrayLevel now, next;
  graph::Value noise; // f32(rows, window, width), standard normal; undefined unless uses_noise
  // Runs the model on an array at a time f32(rows, 1, 1).
  std::function<Denoised(graph::Value array, graph::Value time)> denoise;
};

// A step's array at level `next`, and the text of the step.
struct SolverResult {
  graph::Value array;
  graph::Value hidden; // Denoised::hidden of the evaluation that gives the text
};

class Solver {
public:
  virtual ~Solver() = default;
  virtual bool uses_noise() const { return false; }
  // Evaluations of the model in one step.
  virtual int64_t evaluations() const { return 1; }
  virtual SolverResult step(const SolverStep& step) const = 0;
};

// DDIM (Song et al. 2021) with eta = 0: keeps the noise that the array implies, and lowers its
// level. Deterministic.
std::unique_ptr<Solver> ddim_solver();

} // namespace dllm::decode
