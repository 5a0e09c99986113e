#include "graph/mask.h"

namespace dllm::graph {

const char* mask_kind_name(MaskKind kind) {
  switch (kind) {
  case MaskKind::causal: return "causal";
  case MaskKind::block_causal: return "block_causal";
  case MaskKind::two_stream: return "two_stream";
  case MaskKind::key_range: return "key_range";
  case MaskKind::window: return "window";
  case MaskKind::segments: return "segments";
  case MaskKind::key_limit: return "key_limit";
  case MaskKind::key_keep: return "key_keep";
  case MaskKind::dense: return "dense";
  }
  return "unknown";
}

namespace {

Mask& and_term(Mask& mask, MaskKind kind, std::vector<Value> params) {
  mask.terms.push_back({kind, std::move(params)});
  return mask;
}

Mask one_term(MaskKind kind, std::vector<Value> params) {
  Mask mask;
  and_term(mask, kind, std::move(params));
  return mask;
}

} // namespace

Mask Mask::causal() {
  return one_term(MaskKind::causal, {});
}
Mask Mask::block_causal(Value block) {
  return one_term(MaskKind::block_causal, {block});
}
Mask Mask::two_stream(Value length, Value block) {
  return one_term(MaskKind::two_stream, {length, block});
}
Mask& Mask::and_key_range(Value begin, Value end) {
  return and_term(*this, MaskKind::key_range, {begin, end});
}
Mask& Mask::and_window(Value reach) {
  return and_term(*this, MaskKind::window, {reach});
}
Mask& Mask::and_segments(Value query, Value key) {
  return and_term(*this, MaskKind::segments, {query, key});
}
Mask& Mask::and_key_limit(Value limit) {
  return and_term(*this, MaskKind::key_limit, {limit});
}
Mask& Mask::and_key_keep(Value keep) {
  return and_term(*this, MaskKind::key_keep, {keep});
}
Mask& Mask::and_dense(Value table) {
  return and_term(*this, MaskKind::dense, {table});
}

std::string Mask::kinds() const {
  if (terms.empty()) return "full";
  std::string text;
  for (const MaskTerm& term : terms) {
    if (!text.empty()) text += '+';
    text += mask_kind_name(term.kind);
  }
  return text;
}

std::vector<Value> Mask::params() const {
  std::vector<Value> all;
  if (query_start.defined()) all.push_back(query_start);
  for (const MaskTerm& term : terms) all.insert(all.end(), term.params.begin(), term.params.end());
  return all;
}

} // namespace dllm::graph
