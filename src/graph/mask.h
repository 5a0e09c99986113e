#pragma once
// Attention masks are symbolic: a conjunction of kinds. Only the kinds belong to a program; every parameter is a value
// given at run time, so moving a block never recompiles. No (query, key) table is stored, `dense` excepted.

#include "graph/graph.h"

#include <string>
#include <vector>

namespace dllm::graph {

enum class MaskKind {
  causal,       // key <= query
  block_causal, // key / block <= query / block              params: block i32()
  two_stream, // [noised | clean], both `length` long, blocks of `block`: noised sees its own noised block and clean
  // blocks before it, clean sees clean blocks up to its own (BD3LM)   params: length i32(), block i32()
  key_range, // begin <= key < end, per row               params: begin i32(batch), end i32(batch)
  window,    // |query - key| <= reach                    params: reach i32()
  segments, // segment of query == segment of key        params: query i32(batch, queries), key i32(batch, keys)
  key_limit, // key < limit[query]                        params: limit i32(batch, queries)
  key_keep,  // keep[key] != 0                            params: keep u8(batch, keys)
  dense,     // table != 0; given by a caller             params: table u8(batch, queries, keys)
};
const char* mask_kind_name(MaskKind kind);

struct MaskTerm {
  MaskKind kind;
  std::vector<Value> params;
};

// Query i of row b stands at key coordinate query_start[b] + i (0 when query_start is not given), so a window of
// queries over a longer cache needs no other kind.
struct Mask {
  std::vector<MaskTerm> terms; // empty: everything is visible
  Value query_start;           // i32(batch), or undefined

  static Mask full() { return {}; }
  static Mask causal();
  static Mask block_causal(Value block);
  static Mask two_stream(Value length, Value block);
  Mask& and_key_range(Value begin, Value end);
  Mask& and_window(Value reach);
  Mask& and_segments(Value query, Value key);
  Mask& and_key_limit(Value limit);
  Mask& and_key_keep(Value keep);
  Mask& and_dense(Value table);

  std::string kinds() const; // "causal+key_range", "full"; an attribute of the attention node
  std::vector<Value> params() const; // query_start first if given, then the terms' in order
};

} // namespace dllm::graph
