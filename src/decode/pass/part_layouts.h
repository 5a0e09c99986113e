#pragma once
// Names what a program needs of the parts that it reads. Two adapters with matrices of equal
// shapes, types and factors can use one program.

#include "model/params/param_store.h"
#include "model/params/part.h"

#include <cstddef>
#include <map>
#include <string>

namespace dllm::decode {

class PartLayouts {
public:
  explicit PartLayouts(const model::ParamStore& params);

  // Returns a text that is equal for lists whose parts have equal layouts, orders and weights.
  // Fails with not_found for a part that the model lacks.
  std::string of(const model::PartList& list) const;

private:
  struct Layout {
    size_t first = 0;   // index of its first entry among all parameters
    std::string digest; // of the names, shapes, types and factors of its entries
  };
  std::map<std::string, Layout> layouts_; // by part
};

} // namespace dllm::decode
