#include "unit/graph/op_cases.h"

#include "unit/graph/cases/cases.h"

namespace dllm::graph::test {

std::vector<OpCase> op_cases() {
  Cases cases;
  add_making(cases);
  add_elementwise(cases);
  add_reductions(cases);
  add_indexing(cases);
  add_products(cases);
  add_experts(cases);
  add_rows_of_matrices(cases);
  add_attention(cases);
  add_head(cases);
  add_training(cases);
  add_mesh(cases);
  add_control(cases);
  return std::move(cases.list);
}

} // namespace dllm::graph::test
