#pragma once
// What the files of this folder share: a list of cases and how one is added. Operands are named
// before a call where their order matters, since C++ evaluates arguments in any order.

#include "graph/op.h"
#include "graph/ops.h"
#include "unit/graph/case_builder.h"

#include <string>
#include <vector>

namespace dllm::graph::test {

using B = CaseBuilder;
using Values = std::vector<Value>;

class Cases {
public:
  template <class Build>
  void add(const char* op, const std::string& label, Build build, size_t differentiable = 100) {
    B b(op, label);
    const Values outputs = build(b);
    list.push_back(b.done(outputs, differentiable));
  }
  // The nodes of an operation that has no free function of its own.
  static Values raw(const char* op, const Values& inputs, Attributes attributes) {
    return inputs[0].graph->add(find_op(op), inputs, std::move(attributes));
  }
  std::vector<OpCase> list;
};

void add_making(Cases& c);
void add_elementwise(Cases& c);
void add_reductions(Cases& c);
void add_indexing(Cases& c);
void add_products(Cases& c);
void add_experts(Cases& c);
void add_rows_of_matrices(Cases& c);
void add_attention(Cases& c);
void add_head(Cases& c);
void add_training(Cases& c);
void add_mesh(Cases& c);
void add_control(Cases& c);

} // namespace dllm::graph::test
