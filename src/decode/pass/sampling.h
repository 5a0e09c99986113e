#pragma once
// The settings of a request that shape its draws, as columns that a head reads: temperature, top_k,
// top_p. A new setting is a row of the table in sampling.cpp and an input of the operation.

#include "decode/request/request.h"
#include "graph/ops.h"
#include "tensor/batch.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace dllm::decode {

// The columns of a feed. A line that no request sets is drawn at temperature 0.
class SamplingColumns {
public:
  explicit SamplingColumns(size_t lines);
  // Sets a line to the settings of a request. A temperature of 0 or more replaces the request's.
  void put(size_t line, const Request& request, float temperature = -1);
  // Adds the columns in this shape, which has one element per line.
  void add_to(Batch& feed, const Shape& shape) const;

private:
  std::vector<std::vector<double>> columns_; // in the order of the table
};

// Sets the inputs of a head to the columns. `make` makes the input of a name.
void add_sampling(graph::TokenStatisticsInputs& head,
                  const std::function<graph::Value(const char* name, DType dtype)>& make);

} // namespace dllm::decode
