#pragma once
// The memory plan of a graph: the place of every value, decided before anything runs. A frame is the plan of one graph or one loop
// body; the arena of a body is part of its loop's scratch, so one block holds everything.

#include "cpu/kernel.h"
#include "graph/graph.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dllm::cpu {

// The place of a value while its frame runs.
struct Place {
  enum Kind : uint8_t { kNone, kArena, kConstant, kInput, kOutput };
  Kind kind = kNone;
  int32_t index = -1;  // input or output number; node of a constant
  int64_t offset = -1; // in the frame's arena
};

struct Loop;

// One node that does something.
struct Step {
  int32_t node = -1;
  Kernel kernel;
  std::shared_ptr<Loop> loop;  // of a scan or while; kernel.run is empty then
  std::vector<int32_t> inputs; // value ids
  std::vector<int32_t> outputs;
  int64_t scratch_offset = 0; // in the frame's arena
};

// An output that has no storage of its own (an input, a constant, the same value twice): copied at
// the end.
struct Copy {
  int32_t value;
  int32_t output;
  int64_t bytes;
};

struct Frame {
  std::shared_ptr<const graph::Graph> graph;
  Arithmetic arithmetic = kArithmeticF32;
  std::vector<Place> places;   // by value id
  std::vector<int32_t> source; // by value id: the value that a view shows, itself otherwise
  std::vector<Step> steps;
  std::vector<Copy> copies;
  std::vector<FormSet> input_forms;    // wanted of each input
  std::vector<int32_t> takes_over;     // by output: the input whose storage it is, or -1
  int32_t first_overwrite = INT32_MAX; // the first step that writes into an input's storage
  int64_t arena_bytes = 0;
  int64_t constant_bytes = 0;
  size_t most_operands = 0; // of one step
};

// How a scan or while runs; operands in the order of its node.
struct Loop {
  bool is_while = false;
  Frame body;
  Frame cond; // of a while
  int64_t carry = 0, per_layer = 0, consts = 0;
  int64_t begin = 0, end = 0;
  bool reverse = false;
  // Second buffer of each carry in the loop's scratch, or -1 when the body works in place.
  std::vector<int64_t> spare;
  std::vector<int64_t> carry_bytes;
  int64_t frame_offset = 0; // arena of body (and cond) in the loop's scratch
  int64_t scratch_bytes = 0;
};

struct FrameRequest {
  std::shared_ptr<const graph::Graph> graph;
  int threads = 1;
  std::vector<bool> keeps_forms;  // by input
  std::vector<int32_t> donations; // by output: the input it should take over, or -1
  graph::Placement place;         // the rank it is for
  Arithmetic arithmetic = kArithmeticF32;
  bool fuses = true; // elementwise steps run as one (fused_steps.h)
};

// Fails with unimplemented when an operation has neither kernel nor definition here.
Frame plan_frame(const FrameRequest& request);

// Scans and whiles have no factory: the plan builds their loops.
bool is_loop(const graph::Node& node);

Loop plan_loop(const CompileInfo& info);
// Forms wanted of the operands, scratch, and results that may be written over their start values.
Kernel loop_kernel(const Loop& loop);

} // namespace dllm::cpu
