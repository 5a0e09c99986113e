#pragma once
// A filter of draws is a number of each request, such as top_k. It leaves some ids of a row of
// logits out. Its row of the table has its option and its two forms: on the host, and as a graph.
// Options, requests, programs and engines go over the table (table.h).

#include "base/options.h"
#include "graph/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::graph {

// One row of logits on the host, and the ids that are left of it.
struct DrawRow {
  const float* logits;  // (vocab): -infinity: the id is never drawn
  const float* weights; // (vocab): exp((logit - maximum) * factor); the largest is 1
  int64_t vocab;
  float maximum;           // the largest logit
  float factor;            // 1 / temperature
  int32_t* ids;            // (vocab): the first `count` are left
  int64_t count = -1;      // -1: no filter wrote ids, and all ids are left that may be drawn
  bool best_first = false; // ids are in the order of their logits; false: in ascending order

  // Writes the ids, if no filter did.
  void list();
  // Keeps the ids for which keep(id) is true. REQUIRES: it is true for the likeliest id.
  template <class Keep> void keep_if(const Keep& keep) {
    list();
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) { // without a branch, which would be hard to predict
      const int32_t id = ids[i];
      ids[kept] = id;
      kept += keep(id) ? 1 : 0;
    }
    count = kept;
  }
};

// Rows of logits in a graph, and the ids that are left of them.
struct FilteredRows {
  Value z;      // f32(rows, vocab): logits / temperature; -infinity: the id is never drawn
  Value weight; // f32(rows, vocab): exp(z - the largest z of the row)
  Value kept;   // u8(rows, vocab): 1 for the ids that are left
};

struct DrawFilter {
  // The option of a decoder. The default turns the filter off. It is the lower end or the upper end
  // of the range. The lower end is 0. A whole number counts ids.
  OptionSpec option;
  // Leaves ids out, where the filter is on. The likeliest id stays.
  void (*keep)(DrawRow& row, double setting);
  // Returns u8(rows, vocab): the ids that stay. setting (rows): f32, or i32 for a whole number.
  // The result has no meaning in rows whose filter is off.
  Value (*graph)(const FilteredRows& rows, Value setting);
  // true: every program has the filter. false: a program has it only if the settings of a row turn
  // it on, so the programs of other requests are not slower.
  bool in_every_program = false;

  const std::string& name() const { return option.key; }
  bool counts_ids() const { return option.type == OptionType::i64; }
  DType dtype() const { return counts_ids() ? DType::i32 : DType::f32; }
  double off() const;
  bool is_on(double setting) const { return off() == 0 ? setting > 0 : setting < off(); }
  // The same for a row of this many ids.
  bool is_on(double setting, int64_t vocab) const {
    return is_on(setting) && !(counts_ids() && setting >= static_cast<double>(vocab));
  }
  // Returns u8(rows): the rows of this many ids in which the filter is on.
  Value is_on(Value setting, int64_t vocab) const;
};

// Returns the filters in the order in which they act.
const std::vector<DrawFilter>& draw_filters();
// Returns the place of a filter in the table.
size_t filter_index(const std::string& name);

// The filters of a program, as bits by their place in the table.
using FilterSet = uint32_t;
FilterSet filters_of_every_program();

// The settings of a request, in the order of the table.
using FilterSettings = std::vector<double>;
FilterSettings filters_off();
// Returns the filters that are on.
FilterSet filters_on(const FilterSettings& settings);
// Returns "top_k to 0 and top_p to 1", for hints.
std::string filters_off_text();

// Returns the filters of an attribute of token_statistics: "top_k,top_p".
std::vector<const DrawFilter*> named_filters(const std::string& names);

} // namespace dllm::graph
