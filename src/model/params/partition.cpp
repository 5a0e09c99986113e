#include "model/params/partition.h"

#include "base/error.h"
#include "model/families/family.h"
#include "model/layers/layer_kind.h"

#include <algorithm>
#include <string_view>

namespace dllm::model {
namespace {

using graph::Axis;

// Parameters of one group are cut together or not at all.
enum class CutGroup { attention, network, vocabulary, experts };

struct CutRule {
  std::string_view use; // ParamSpec::use
  PartitionKind kind;
  CutGroup group;
};

// The table cuts one matrix by columns and the next by rows, so that one sum over the ranks ends
// each half of a layer (Shoeybi et al. 2019, Megatron-LM, section 3). The vocabulary is cut in
// table and head.
constexpr CutRule kRules[] = {
    {"attention.q", PartitionKind::columns, CutGroup::attention},
    {"attention.k", PartitionKind::columns, CutGroup::attention},
    {"attention.v", PartitionKind::columns, CutGroup::attention},
    {"attention.out", PartitionKind::rows, CutGroup::attention},
    {"mlp.gate", PartitionKind::columns, CutGroup::network},
    {"mlp.up", PartitionKind::columns, CutGroup::network},
    {"mlp.down", PartitionKind::rows, CutGroup::network},
    {"experts.gate", PartitionKind::columns, CutGroup::network},
    {"experts.up", PartitionKind::columns, CutGroup::network},
    {"experts.down", PartitionKind::rows, CutGroup::network},
    {"experts.expert_gate", PartitionKind::experts, CutGroup::experts},
    {"experts.expert_up", PartitionKind::experts, CutGroup::experts},
    {"experts.expert_gate_up", PartitionKind::experts, CutGroup::experts},
    {"experts.expert_down", PartitionKind::experts, CutGroup::experts},
    {"embedding", PartitionKind::columns, CutGroup::vocabulary},
    {"head", PartitionKind::columns, CutGroup::vocabulary},
};

std::string_view without_bias(std::string_view use) {
  constexpr std::string_view kBias = ".bias";
  return use.ends_with(kBias) ? use.substr(0, use.size() - kBias.size()) : use;
}

const CutRule* rule_of(const ParamSpec& spec) {
  const auto found = std::ranges::find(kRules, without_bias(spec.use), &CutRule::use);
  return found == std::end(kRules) ? nullptr : &*found;
}

Axis axis_of(PartitionKind kind) {
  return kind == PartitionKind::experts ? Axis::expert : Axis::tensor;
}

// Returns the number that must divide by the ranks of the axis.
int64_t extent(const ParamSpec& spec, const CutRule& rule) {
  return rule.kind == PartitionKind::rows ? spec.element[-1] : spec.element[0];
}

bool divides(const std::vector<ParamSpec>& specs, const ModelConfig& config, CutGroup group,
             int64_t ranks) {
  if (group == CutGroup::attention) {
    // A matrix of queries, keys and values is not cut, because a rank's parts would not be
    // consecutive.
    const bool apart =
        std::ranges::any_of(specs, [](const ParamSpec& spec) { return spec.use == "attention.q"; });
    return apart && config.heads % ranks == 0 && config.kv_heads % ranks == 0;
  }
  const bool joined =
      std::ranges::any_of(specs, [](const ParamSpec& spec) { return spec.use == "mlp.gate_up"; });
  if (group == CutGroup::network && joined) return false; // for the same reason
  return std::ranges::all_of(specs, [&](const ParamSpec& spec) {
    const CutRule* rule = rule_of(spec);
    if (rule == nullptr || rule->group != group) return true;
    const bool bias_of_rows = is_vector(spec.role) && rule->kind == PartitionKind::rows;
    return bias_of_rows || extent(spec, *rule) % ranks == 0;
  });
}

// Returns the dimension of a matrix that FSDP cuts and no other axis cuts; -1: no dimension
// divides.
int64_t gathered_dim(const ParamSpec& spec, PartitionKind kind, int64_t ranks) {
  if (is_vector(spec.role) || spec.element.rank() < 2) return -1;
  const int64_t last = spec.element.rank() - 1, first = last == 2 ? 0 : last - 1;
  const bool tries_first = kind == PartitionKind::none || kind == PartitionKind::rows;
  if (tries_first && spec.element[first] % ranks == 0) return first;
  return kind != PartitionKind::rows && spec.element[last] % ranks == 0 ? last : -1;
}

Partition partition_of(const ParamSpec& spec, const CutRule* rule, const graph::Mesh& mesh) {
  Partition made;
  const bool vector = is_vector(spec.role);
  if (rule != nullptr && !(vector && rule->kind == PartitionKind::rows)) {
    made.kind = rule->kind;
    made.ranks = mesh.size(axis_of(rule->kind));
  }
  const int64_t fsdp = mesh.size(Axis::fsdp);
  if (fsdp > 1 && spec.role != ParamRole::positions) {
    made.gathered_dim = gathered_dim(spec, made.kind, fsdp);
    made.gathered_ranks = made.gathered_dim >= 0 ? fsdp : 1;
  }
  return made;
}

// Fails where a layer, or the whole model, needs all positions of a row on one rank.
void expect_cut_positions(const ModelConfig& config) {
  constexpr const char* kHint = "use the axes data, fsdp, tensor and expert";
  const char* axis = graph::axis_name(Axis::sequence);
  if (config.canvas)
    fail_with_hint(kHint, Code::unimplemented, "models of {} are not cut over the axis {}",
                   config.family, axis);
  for (const LayerRun& run : layer_runs(config)) {
    if (run.mixer->cuts_positions) continue;
    fail_with_hint(kHint, Code::unimplemented,
                   "layers of kind {} are not cut over the axis {}: they need all positions of a "
                   "row on one rank",
                   run.mixer->name, axis);
  }
}

} // namespace

graph::Layout Partition::layout(int64_t leading, int64_t rank) const {
  graph::Layout layout;
  if (cuts()) layout.cut(axis_of(kind), leading + (kind == PartitionKind::rows ? rank - 1 : 0));
  if (gathered_ranks > 1) layout.cut(Axis::fsdp, leading + gathered_dim);
  return layout;
}

void set_partitions(std::vector<ParamSpec>& specs, const ModelConfig& config,
                    const graph::Mesh& mesh) {
  if (mesh.ranks() == 1) return;
  if (mesh.size(Axis::sequence) > 1) expect_cut_positions(config);
  bool cut[4];
  for (const CutGroup group :
       {CutGroup::attention, CutGroup::network, CutGroup::vocabulary, CutGroup::experts}) {
    const int64_t ranks = mesh.size(group == CutGroup::experts ? Axis::expert : Axis::tensor);
    cut[static_cast<int>(group)] = ranks > 1 && divides(specs, config, group, ranks);
  }
  for (ParamSpec& spec : specs) {
    const CutRule* rule = rule_of(spec);
    if (rule != nullptr && !cut[static_cast<int>(rule->group)]) rule = nullptr;
    spec.partition = partition_of(spec, rule, mesh);
  }
}

Partition adapter_partition(const Partition& base, bool down) {
  Partition made;
  if (base.kind == PartitionKind::experts ||
      base.kind == (down ? PartitionKind::rows : PartitionKind::columns)) {
    made.kind = base.kind;
    made.ranks = base.ranks;
  }
  return made;
}

std::vector<ParamSpec> partitioned_params(const ModelConfig& config, const graph::Mesh& mesh) {
  std::vector<ParamSpec> specs = find_family(config.family).params(config);
  set_partitions(specs, config, mesh);
  for (const auto& [name, network] : part_configs(config)) {
    for (ParamSpec& spec : partitioned_params(network, mesh)) {
      spec.part = name;
      specs.push_back(std::move(spec));
    }
  }
  return specs;
}

} // namespace dllm::model
