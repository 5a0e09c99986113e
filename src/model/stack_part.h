#pragma once
// Stacks that an engine in several processes takes in layer by layer: a process holds its part of the stack and one layer of
// the whole, never all of it. With one process a stack is taken in as it is.

#include "base/task.h"
#include "graph/engine.h"
#include "model/param_map.h"
#include "model/param_store.h"

#include <functional>
#include <string>

namespace dllm::model {

// Calls read(form, spec) for the stack, or for each of its layers with the spec of that layer alone, and fills the parameter
// at `index` of the store. read puts every tensor of the spec it is given into the form.
using ReadStack = std::function<void(ParamForm& form, const ParamSpec& spec)>;
void fill_stack(ParamStore& store, size_t index, const ParamSpec& spec, const WeightFormat& format,
                const ReadStack& read, const Task* task);

// An f32 array of the layout of a parameter, joined from logical tensors: join_logical, cut and uploaded.
graph::BufferRef upload_joined(graph::Engine& engine, const ParamSpec& spec,
                               const std::function<Tensor(const std::string&)>& read,
                               const Task* task);
// Zeros of such an array.
graph::BufferRef upload_zeros(graph::Engine& engine, const ParamSpec& spec);
// A copy of a buffer of that layout in f32, as a plain array.
graph::BufferRef upload_copy(graph::Engine& engine, const graph::Buffer& buffer,
                             const graph::Layout& layout, const Task* task);

} // namespace dllm::model
