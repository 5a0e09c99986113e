#include "cpu/plan.h"

#include "base/error.h"
#include "cpu/buffer.h"
#include "cpu/fused_steps.h"
#include "cpu/stack_overlap.h"
#include "cpu/storage.h"
#include "graph/op.h"

#include <algorithm>
#include <string_view>

namespace dllm::cpu {
namespace {

using graph::Graph;
using graph::Node;

bool is_constant(const Node& node) {
  return std::string_view(node.op->name) == "constant";
}

class FramePlanner {
public:
  explicit FramePlanner(const FrameRequest& request) : request_(request), graph_(*request.graph) {
    frame_.graph = request.graph;
    frame_.arithmetic = request.arithmetic;
    frame_.places.resize(static_cast<size_t>(graph_.value_count()));
    frame_.source.resize(static_cast<size_t>(graph_.value_count()));
    for (int32_t v = 0; v < graph_.value_count(); ++v) frame_.source[static_cast<size_t>(v)] = v;
    keeps_forms_.resize(static_cast<size_t>(graph_.value_count()), false);
  }

  Frame plan() {
    const auto& inputs = graph_.inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      frame_.places[index(inputs[i].value)] = {Place::kInput, static_cast<int32_t>(i), -1};
      const graph::ValueType& type = graph_.type(inputs[i].value);
      keeps_forms_[index(inputs[i].value)] =
          request_.keeps_forms[i] && has_forms(type.shape, type.dtype);
    }
    for (size_t n = 0; n < graph_.nodes().size(); ++n) add_node(static_cast<int32_t>(n));
    drop_unread_steps();
    if (request_.fuses) fuse_elementwise_steps(frame_);
    collect_forms();
    assign_storage();
    place_arena();
    return std::move(frame_);
  }

private:
  static size_t index(int32_t value) { return static_cast<size_t>(value); }

  void add_node(int32_t number) {
    const Node& node = graph_.nodes()[index(number)];
    if (is_constant(node)) {
      frame_.places[index(node.outputs[0])] = {Place::kConstant, number, -1};
      frame_.constant_bytes += node.literal.byte_size();
      return;
    }
    CompileInfo info{graph_,        node, request_.threads, {}, request_.place, request_.arithmetic,
                     request_.fuses};
    for (int32_t input : node.inputs) info.keeps_forms.push_back(keeps_forms_[index(input)]);
    Step step;
    step.node = number;
    step.outputs = node.outputs;
    if (is_loop(node)) {
      step.loop = std::make_shared<Loop>(plan_loop(info));
      step.kernel = loop_kernel(*step.loop);
      frame_.constant_bytes += step.loop->body.constant_bytes + step.loop->cond.constant_bytes;
    } else {
      const KernelFactory factory = find_kernel(node.op->name);
      if (factory == nullptr) {
        fail(Code::unimplemented, "the cpu engine has no kernel for [{}] in graph {}",
             node.op->name, graph_.name());
      }
      step.kernel = factory(info);
    }
    if (step.kernel.is_view) {
      add_view(node);
      return;
    }
    step.inputs = step.kernel.reads.empty() ? node.inputs : step.kernel.reads;
    frame_.most_operands = std::max(frame_.most_operands, step.inputs.size() + step.outputs.size());
    frame_.steps.push_back(std::move(step));
  }

  void add_view(const Node& node) {
    const int32_t from = node.inputs[0], to = node.outputs[0];
    frame_.source[index(to)] = frame_.source[index(from)];
    const graph::ValueType &seen = graph_.type(to), &held = graph_.type(from);
    keeps_forms_[index(to)] =
        keeps_forms_[index(from)] && seen.shape == held.shape && seen.dtype == held.dtype;
  }

  int32_t root(int32_t value) const { return frame_.source[index(value)]; }

  // Drops steps whose results are not read. They arise where a kernel reads the input of another
  // node in place of its result.
  void drop_unread_steps() {
    std::vector<bool> read(frame_.places.size(), false);
    for (const graph::GraphOutput& output : graph_.outputs())
      read[index(root(output.value))] = true;
    std::vector<Step> kept;
    for (auto step = frame_.steps.rbegin(); step != frame_.steps.rend(); ++step) {
      const bool used = std::any_of(step->outputs.begin(), step->outputs.end(),
                                    [&](int32_t v) { return read[index(v)]; });
      if (!used) continue;
      for (int32_t v : step->inputs) read[index(root(v))] = true;
      kept.push_back(std::move(*step));
    }
    std::reverse(kept.begin(), kept.end());
    frame_.steps = std::move(kept);
  }

  void collect_forms() {
    std::vector<FormSet> forms(frame_.places.size(), 0);
    for (const Step& step : frame_.steps) {
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        const bool named = i < step.kernel.wants.size() && keeps_forms_[index(step.inputs[i])];
        forms[index(root(step.inputs[i]))] |= named ? step.kernel.wants[i] : FormSet{kPlain};
      }
    }
    for (const graph::GraphOutput& output : graph_.outputs())
      forms[index(root(output.value))] |= kPlain;
    for (const graph::GraphInput& input : graph_.inputs())
      frame_.input_forms.push_back(forms[index(input.value)]);
  }

  // Assigns storage. Donations that are not possible are withdrawn until the rest is consistent.
  void assign_storage() {
    StoragePlanner storage(frame_, request_.donations, request_.brief);
    while (!storage.assign()) {
    }
    storage.write_places();
    storage_ = storage.arena_pieces();
  }

  // Places the pieces of the arena. Stacks overlap where this makes the arena smaller.
  void place_arena() {
    const std::vector<StackPair> pairs = pair_stacks(frame_, storage_);
    std::vector<Piece> apart = arena_of({}), paired = arena_of(pairs);
    const int64_t apart_bytes = place_pieces(apart), paired_bytes = place_pieces(paired);
    for (const StackPair& pair : pairs)
      paired[pair.made].offset = paired[pair.kept].offset + pair.shift;
    const std::vector<Piece>& pieces = paired_bytes < apart_bytes ? paired : apart;
    frame_.arena_bytes = std::min(apart_bytes, paired_bytes);
    for (size_t i = 0; i < storage_.size(); ++i) {
      for (int32_t value : storage_[i].values)
        frame_.places[index(value)] = {Place::kArena, -1, pieces[i].offset};
    }
    for (size_t s = 0; s < frame_.steps.size(); ++s) {
      frame_.steps[s].scratch_offset = pieces[storage_.size() + s].offset;
    }
  }

  // Returns the pieces of storage, then the scratch of each step. The second piece of a pair has
  // size 0.
  std::vector<Piece> arena_of(const std::vector<StackPair>& pairs) const {
    std::vector<Piece> pieces;
    for (const ArenaPiece& piece : storage_)
      pieces.push_back({piece.bytes, piece.begin, piece.end, -1});
    for (const StackPair& pair : pairs) {
      pieces[pair.kept].bytes = pair.bytes;
      pieces[pair.kept].end = pieces[pair.made].end;
      pieces[pair.made].bytes = 0;
    }
    for (size_t s = 0; s < frame_.steps.size(); ++s) {
      const auto time = static_cast<int32_t>(s);
      pieces.push_back({frame_.steps[s].kernel.scratch_bytes, time, time, -1});
    }
    return pieces;
  }

  const FrameRequest& request_;
  const Graph& graph_;
  Frame frame_;
  std::vector<bool> keeps_forms_; // by value
  std::vector<ArenaPiece> storage_;
};

} // namespace

bool is_loop(const graph::Node& node) {
  const std::string_view name = node.op->name;
  return name == "scan" || name == "while";
}

Frame plan_frame(const FrameRequest& request) {
  return FramePlanner(request).plan();
}

} // namespace dllm::cpu
