#include "noise/objective_facts.h"

#include <nlohmann/json.hpp>

namespace dllm::noise {
namespace {

const char* name_of(RowKind kind) {
  switch (kind) {
  case RowKind::masked: return "masked";
  case RowKind::replaced: return "replaced";
  case RowKind::clean: return "clean";
  case RowKind::two_streams: return "two_streams";
  case RowKind::canvas: return "canvas";
  case RowKind::edited: return "edited";
  case RowKind::given: return "given";
  case RowKind::sampled: return "sampled";
  case RowKind::vectors: return "vectors";
  }
  return "unknown";
}

} // namespace

Json to_json(const ObjectiveFacts& facts) {
  return {{"rows", name_of(facts.rows)},
          {"packs", facts.packs},
          {"padding", facts.padding},
          {"shift", facts.shift},
          {"model", facts.model},
          {"heads", facts.heads},
          {"positions", facts.positions},
          {"policy", facts.policy},
          {"sample", Json::parse(facts.sample)},
          {"sample_at_end", facts.sample_at_end},
          {"likelihood", facts.likelihood}};
}

} // namespace dllm::noise
