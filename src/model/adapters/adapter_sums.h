#pragma once
// Adds the products of adapters to matrices of the base.

#include "base/task.h"
#include "model/params/param_store.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dllm::model {

class AdapterSums {
public:
  AdapterSums() = default; // has no products
  // Reads the matrices of adapters. entries: all parameters of one version. parts: the names of the
  // adapters, in the order in which the products are added. All processes of an engine make the
  // sums together.
  AdapterSums(const std::vector<ParamStore::Physical>& entries,
              const std::vector<std::string>& parts, const Task* task = nullptr);

  // Returns true when an adapter has products for a stack of the base. stack: ParamSpec::name.
  bool has(const std::string& stack) const {
    return products_.contains(stack) || copies_.contains(stack);
  }
  // Returns W with the changes of all adapters, as f32: W + factor B A for LoRA. W is one logical
  // matrix of a stack of the base, as files have it: (out, in), or turned where the piece says so.
  Tensor sum(const ParamSpec& base, size_t piece, int64_t layer, const Tensor& matrix,
             const Task* task) const;

private:
  struct Product {
    ParamSpec down, up;
    Tensor downs, ups; // f32 stacks
    // Of DoRA.
    std::optional<ParamSpec> magnitude;
    Tensor magnitudes;
  };
  struct Copy {
    ParamSpec spec;
    Tensor values; // f32 stack
  };
  std::map<std::string, std::vector<Product>> products_; // by ParamSpec::name of the base
  std::map<std::string, Copy> copies_;                   // the same
};

} // namespace dllm::model
