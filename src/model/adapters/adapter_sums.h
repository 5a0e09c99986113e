#pragma once
// Adds the changes of adapters to matrices and biases of the base.

#include "base/task.h"
#include "model/adapters/kinds/adapter_kind.h"
#include "model/params/param_store.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

class Model;

class AdapterSums {
public:
  AdapterSums() = default; // has no changes
  // Reads the tensors of adapters. entries: all parameters of one version. parts: the names of the
  // adapters, in the order in which the changes are added. All processes of an engine make the
  // sums together.
  AdapterSums(const Model& model, const std::vector<ParamStore::Physical>& entries,
              const std::vector<std::string>& parts, const Task* task = nullptr);

  // Returns true when an adapter changes a stack of the base. stack: ParamSpec::name.
  bool has(const std::string& stack) const;
  // Returns W with the changes of all adapters, as f32: W + factor B A for LoRA. W is one logical
  // matrix of a stack of the base, as files have it: (out, in), or turned where the piece says so.
  // It may also be the bias of a matrix.
  Tensor sum(const ParamSpec& base, size_t piece, int64_t layer, const Tensor& matrix,
             const Task* task) const;

private:
  struct Stack {
    ParamSpec spec;
    Tensor values; // f32
  };
  struct Change {
    std::string part;
    const AdapterKind* kind;
    std::map<std::string_view, Stack> stacks; // by suffix
  };
  // Returns the changes of the matrix of a bias; null: no kind changes this stack.
  const std::vector<Change>* of_bias(const std::string& stack) const;

  std::map<std::string, std::vector<Change>> changes_; // by ParamSpec::name of the base
  std::map<std::string, Stack> copies_;                // the same
};

} // namespace dllm::model
