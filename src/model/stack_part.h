#pragma once
// The part of a stack that a process has. An engine in several processes takes in parts that each process reads by itself, so
// that no process reads or holds more. With one process the part is the stack.

#include "base/task.h"
#include "graph/engine.h"
#include "model/param_map.h"
#include "model/param_store.h"
#include "tensor/box.h"

#include <functional>
#include <string>
#include <vector>

namespace dllm::model {

struct StackPart {
  ParamSpec spec; // of the part: its shapes, and the logical tensors that it has numbers of
  // Of spec.pieces: the shape of the logical tensor, and where in it the part lies.
  std::vector<Shape> whole;
  std::vector<Box> boxes;
};

// What this process has of the parameter at `index` of the store, or of an array of the layout of a parameter. Fails with
// invalid_argument where a format is cut inside of a block.
StackPart own_part(const ParamStore& store, size_t index);
StackPart own_part(const graph::Engine& engine, const ParamSpec& spec);

// Calls read(form, part) and fills the parameter at `index` of the store. read puts every tensor of part.spec into the form,
// its part alone; it may be called for each layer, and for whole rows where their scale needs them.
using ReadStack = std::function<void(ParamForm& form, const StackPart& part)>;
void fill_stack(ParamStore& store, size_t index, const ReadStack& read, const Task* task);

// What this process has of a parameter, f32, joined from parts of logical tensors.
Tensor joined_part(const graph::Engine& engine, const ParamSpec& spec,
                   const std::function<Tensor(const std::string&, const Box&)>& read,
                   const Task* task);
// The same as an array of that layout.
graph::BufferRef upload_own(graph::Engine& engine, const Tensor& part, const ParamSpec& spec);
// Both in one step.
graph::BufferRef upload_joined(graph::Engine& engine, const ParamSpec& spec,
                               const std::function<Tensor(const std::string&, const Box&)>& read,
                               const Task* task);
// Zeros of such an array.
graph::BufferRef upload_zeros(graph::Engine& engine, const ParamSpec& spec);
// A copy of a buffer of that layout in f32, as a plain array.
graph::BufferRef upload_copy(graph::Engine& engine, const graph::Buffer& buffer,
                             const graph::Layout& layout, const Task* task);

} // namespace dllm::model
