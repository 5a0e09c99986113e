#pragma once
// Defines attention masks as a conjunction of symbolic terms. Only the kinds of the terms are part
// of a program. The parameters are values of the run, so a new position of a block does not
// recompile. Except for `dense`, no table of (query, key) pairs is stored.

#include "graph/graph.h"

#include <string>
#include <vector>

namespace dllm::graph {

// A query attends to a key if the condition of every term holds.
enum class MaskKind {
  // key <= query. No parameters.
  causal,
  // key / block <= query / block. Parameter: block i32().
  block_causal,
  // The row is [noised | clean], each of `length` positions in blocks of `block` (BD3LM). A noised
  // query attends to its own noised block and to the clean blocks before it. A clean query attends
  // to clean blocks up to its own. Parameters: length i32(), block i32().
  two_stream,
  // begin <= key < end, per row. Parameters: begin i32(batch), end i32(batch).
  key_range,
  // |query - key| <= reach. Parameter: reach i32().
  window,
  // The segments of query and key are equal.
  // Parameters: query i32(batch, queries), key i32(batch, keys).
  segments,
  // key < limit[query]. Parameter: limit i32(batch, queries).
  key_limit,
  // keep[key] != 0. Parameter: keep u8(batch, keys).
  key_keep,
  // table != 0, for a table of the caller. Parameter: table u8(batch, queries, keys).
  dense,
};
const char* mask_kind_name(MaskKind kind);

struct MaskTerm {
  MaskKind kind;
  std::vector<Value> params;
};

// An attention mask. Query i of row b has the key coordinate query_start[b] + i, so the kinds also
// serve a window of queries over a longer cache.
struct Mask {
  std::vector<MaskTerm> terms; // without terms every key is visible
  Value query_start;           // i32(batch); undefined means 0

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

  std::string kinds() const; // attribute of the attention node: "causal+key_range", "full"
  // Returns query_start, if defined, and then the parameters of the terms in order.
  std::vector<Value> params() const;
};

} // namespace dllm::graph
