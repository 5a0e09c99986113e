#pragma once
// The three programs of a trainer as graphs: the fused step, and its halves accumulate and apply.
// Private to src/train.

#include "graph/engine.h"
#include "tensor/batch.h"
#include "train/offload/slices.h"
#include "train/step/program_spec.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dllm::train {

// Words of input and output "control" i32(kControlCount). The input has the requests of one process
// for the step. The output is their sum over all processes.
enum Control { kStop, kCheckpoint, kControlCount };

// Indices of the output "numbers" f32(kNumberCount + 2 * parts + observed), from which one transfer
// reads the results of a step. After these numbers come the sum and the count of each part of the
// loss, then what it observed. Words of control are exact below 2^24. Numbers that a program does
// not compute are 0.
enum Number {
  kNumberSum,
  kNumberNormalizer,
  kNumberGradNorm,
  // 1 or 0. 0 also for an update that is left out because an earlier one was not finite.
  kNumberFinite,
  kNumberUsed,  // 1 or 0, as UpdateDecision
  kNumberScale, // of the gradients, as UpdateDecision
  kNumberControl,
  kNumberCount = kNumberControl + kControlCount
};

// The meaning of an input or output of a program.
struct Place {
  enum class Kind {
    parameter, // index into ParamStore::physical()
    state,     // index into ProgramSpec::state
    scalars,   // f32(scalar_count)
    control,
    halted, // f32 scalar: not 0 after an update that was not finite
    feed,   // index into the arrays of the feed
    numbers
  };
  Kind kind = Kind::numbers;
  size_t index = 0;
};

struct StepGraph {
  std::shared_ptr<graph::Graph> graph;
  std::vector<Place> inputs, outputs; // in the order of the graph
  std::vector<std::string> parts;     // parts of the loss, in the order of "numbers"
  std::vector<std::pair<std::string, size_t>> observed; // names and sizes, in the same order
};

// Build the graph of one rank. `feed` has the shapes of the rank's rows. All graphs take control
// and have the output numbers. fused and accumulate take all parameters and the feed. fused and
// apply take scalars; where spec.halts they also take and output halted.
// Outputs of parameters and state are written over their inputs. An update that is not finite
// leaves every array unchanged, to the bit.
//
// With spec.offloads() the graphs change no array. fused and accumulate output the gradients, which
// are the arrays of use sum, and apply takes them as inputs. fused and apply compute the scalars of
// the update. The update itself runs later, slice by slice.
StepGraph build_fused(const ProgramSpec& spec, const Batch& feed);
StepGraph build_accumulate(const ProgramSpec& spec, const Batch& feed);
StepGraph build_apply(const ProgramSpec& spec); // sets the sums to 0

// The numbers of an update that an optimizer does not ask for.
struct UpdateNumbers {
  double clip = 0;                     // largest global norm; 0: no limit
  double normalizer = 0, loss_sum = 0; // for apply: sums over all micro-batches
};
// Returns the values of the input "scalars".
std::vector<float> step_scalars(const ProgramSpec& spec, const UpdateInfo& info,
                                const UpdateNumbers& numbers);

enum class ProgramKind { fused, accumulate, apply };

// --- one slice of an offloaded update ---

// Indices of numbers after the optimizer's in the input "scalars" of a slice.
enum SliceScalar { kSliceScale, kSliceDecay, kSliceScalarCount };

// The inputs are in this order: the parameter, its gradient, "scalars", "begin" i32(rank), and the
// slices of the arrays. The outputs are the parameter, over its input, and the slices. Several
// ranks write the slices over their inputs.
struct SliceGraph {
  std::shared_ptr<graph::Graph> graph;
  std::vector<size_t> entries; // of the slices, indices into ProgramSpec::state
};
enum SliceInput { kSliceParameter, kSliceGradient, kSliceScalars, kSliceBegin, kSliceArrays };
// The place of the slice is an input, so slices of equal size share a graph.
SliceGraph build_slice(const ProgramSpec& spec, const ParameterSlice& slice);

} // namespace dllm::train
