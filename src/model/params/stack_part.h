#pragma once
// The part of a stack that one process holds. With several processes each one reads only its parts
// and uploads them. With one process the part is the whole stack.

#include "base/task.h"
#include "graph/engine.h"
#include "model/params/param_map.h"
#include "model/params/param_store.h"
#include "tensor/box.h"

#include <functional>
#include <string>
#include <vector>

namespace dllm::model {

struct StackPart {
  // The spec of the part: its shapes, and the logical tensors that it has numbers of.
  ParamSpec spec;
  // For each of spec.pieces: the shape of the logical tensor, and the box of the part in it.
  std::vector<Shape> whole;
  std::vector<Box> boxes;
};

// Returns the part of this process: of the parameter at `index` of the store, or of an array with
// the layout of a parameter. Fails with invalid_argument where a format would be cut inside of a
// block.
StackPart own_part(const ParamStore& store, size_t index);
StackPart own_part(const graph::Engine& engine, const ParamSpec& spec);

// Fills the parameter at `index` of the store by calls of read(form, part). `read` puts the part of
// every tensor of part.spec into the form. It may be called once per layer, and for whole rows
// where the scale of a row needs them.
using ReadStack = std::function<void(ParamForm& form, const StackPart& part)>;
void fill_stack(ParamStore& store, size_t index, const ReadStack& read, const Task* task);

// Returns this process's part of a parameter as f32, joined from parts of logical tensors.
Tensor joined_part(const graph::Engine& engine, const ParamSpec& spec,
                   const std::function<Tensor(const std::string&, const Box&)>& read,
                   const Task* task);
// Uploads such a part as an array with that layout.
graph::BufferRef upload_own(graph::Engine& engine, const Tensor& part, const ParamSpec& spec);
// Joins and uploads the part.
graph::BufferRef upload_joined(graph::Engine& engine, const ParamSpec& spec,
                               const std::function<Tensor(const std::string&, const Box&)>& read,
                               const Task* task);
// Uploads zeros as such an array.
graph::BufferRef upload_zeros(graph::Engine& engine, const ParamSpec& spec);
// Uploads a copy of a buffer with that layout as a plain f32 array.
graph::BufferRef upload_copy(graph::Engine& engine, const graph::Buffer& buffer,
                             const graph::Layout& layout, const Task* task);

} // namespace dllm::model
