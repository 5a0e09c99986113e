#pragma once
// The settings of a request that shape its draws, as columns that a head reads: the temperature,
// and the filters of the program (graph/filters/filter.h).

#include "decode/pass/pass.h"
#include "decode/request/request.h"
#include "graph/ops.h"
#include "tensor/batch.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace dllm::decode {

// The columns of a feed. A line that no request sets is drawn at temperature 0.
class SamplingColumns {
public:
  SamplingColumns(size_t lines, const PassShape& shape);
  // Sets a line to the settings of a request. A temperature of 0 or more replaces the request's.
  void put(size_t line, const Request& request, float temperature = -1);
  // Adds the columns in this shape, which has one element per line.
  void add_to(Batch& feed, const Shape& shape) const;

private:
  std::vector<float> temperature_;
  std::vector<size_t> filters_;              // places in the table
  std::vector<std::vector<double>> columns_; // of these filters
};

// Sets the inputs of a head to the columns. `make` makes the input of a name.
void add_sampling(graph::TokenStatisticsInputs& head, const PassShape& shape,
                  const std::function<graph::Value(const char* name, DType dtype)>& make);

} // namespace dllm::decode
