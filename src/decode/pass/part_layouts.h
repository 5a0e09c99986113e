#pragma once
// Names what a program needs of the parts that it reads. Two adapters with matrices of equal
// shapes, types and factors can use one program.

#include "model/model.h"
#include "model/params/part.h"

#include <cstddef>
#include <map>
#include <string>

namespace dllm::decode {

class PartLayouts {
public:
  explicit PartLayouts(const model::Model& model);

  // Returns a text that is equal for lists whose parts have equal layouts, orders and weights.
  // Fails with not_found for a part that the model lacks.
  std::string of(const model::PartList& list) const;
  // Returns whether a row with these parts may share a pass with rows that have others: the base
  // alone, or the base and one adapter of weight 1 whose kind has products by row. The adapter has
  // no experts and no modules of its own.
  bool may_differ(const model::PartList& list) const;

private:
  struct Layout {
    size_t first = 0; // index of its first entry among all parameters
    // Of the names, shapes, types and factors of its entries. A network has a config too: one that
    // replaces another has a digest of its own.
    std::string digest;
    bool is_by_row = false; // an adapter for may_differ()
  };
  std::map<std::string, Layout> layouts_; // by part
};

} // namespace dllm::decode
