#pragma once
// The memory plan of a graph gives every value a place before the graph runs. A frame is the plan
// of one graph or one loop body. The arena of a body is part of its loop's scratch, so one block
// holds all arenas.

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
  int32_t index = -1;  // number of the input or output, or node of the constant
  int64_t offset = -1; // in the frame's arena
};

struct Loop;

// One node that runs a kernel or a loop. Constants and views have no step.
struct Step {
  int32_t node = -1;
  Kernel kernel;
  std::shared_ptr<Loop> loop;  // of a scan or while, whose kernel.run is empty; else null
  std::vector<int32_t> inputs; // value ids
  std::vector<int32_t> outputs;
  int64_t scratch_offset = 0; // in the frame's arena
};

// An output whose value has storage of another kind: an input, a constant, or another output. The
// value is copied at the end of the run.
struct Copy {
  int32_t value;
  int32_t output;
  int64_t bytes;
};

struct Frame {
  std::shared_ptr<const graph::Graph> graph;
  Arithmetic arithmetic = kArithmeticF32;
  std::vector<Place> places;   // by value id
  std::vector<int32_t> source; // by value id: the value whose storage it shows, or itself
  std::vector<Step> steps;
  std::vector<Copy> copies;
  std::vector<FormSet> input_forms;    // by input: the forms that the steps read
  std::vector<int32_t> takes_over;     // by output: the input whose storage it uses, or -1
  std::vector<bool> in_arena;          // by output: it stays in the arena after the run
  int32_t first_overwrite = INT32_MAX; // first step that writes into an input's storage
  int64_t arena_bytes = 0;
  int64_t constant_bytes = 0;
  size_t most_operands = 0; // largest number of inputs and outputs of a step
};

// The plan of a scan or while. The operands are in the order of the node.
struct Loop {
  bool is_while = false;
  Frame body;
  Frame cond; // of a while
  int64_t carry = 0, per_layer = 0, consts = 0;
  int64_t begin = 0, end = 0; // elements of a scan
  bool reverse = false;       // a scan runs from the last element to the first
  // By carry: offset of its second buffer in the loop's scratch, or -1 when the body works in
  // place.
  std::vector<int64_t> spare;
  std::vector<int64_t> carry_bytes;
  int64_t frame_offset = 0; // of the arena of body and cond in the loop's scratch
  int64_t scratch_bytes = 0;
};

struct FrameRequest {
  std::shared_ptr<const graph::Graph> graph;
  int threads = 1;
  std::vector<bool> keeps_forms;  // by input
  std::vector<int32_t> donations; // by output: the input it should take over, or -1
  std::vector<bool> brief;        // by output: it may stay in the arena; empty: none may
  graph::Placement place;         // the rank that runs the program
  Arithmetic arithmetic = kArithmeticF32;
  bool fuses = true; // elementwise steps run as one (fused_steps.h)
};

// Returns the plan of a graph whose operations are lowered already. Fails with unimplemented when
// an operation has no kernel.
Frame plan_frame(const FrameRequest& request);

// Returns true for scan and while. They have no factory, because the plan builds their loops.
bool is_loop(const graph::Node& node);

Loop plan_loop(const CompileInfo& info);
// Returns the kernel record of a loop. It has the wanted forms, the scratch bytes, and the carries,
// whose results may overwrite their start values. Its `run` is empty.
Kernel loop_kernel(const Loop& loop);

} // namespace dllm::cpu
