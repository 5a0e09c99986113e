#include "noise/terms/teacher.h"

#include "base/error.h"
#include "graph/ops.h"
#include "model/network/token_batch.h"
#include "noise/terms/table.h"

namespace dllm::noise {
namespace {

constexpr std::string_view kPrefix = "teacher:"; // of the arrays of the teacher's pass

TeacherKind kind_of(const std::string& name) {
  if (name == "model") return TeacherKind::model;
  return name == "rows" ? TeacherKind::rows : TeacherKind::base;
}

} // namespace

Tensor clean_ids(const Batch& prepared) {
  const Tensor* kept = prepared.find(kCleanIds);
  if (kept != nullptr && kept->shape() == prepared.at("ids").shape()) return kept->to(DType::i32);
  Tensor ids = prepared.at("ids").to(DType::i32).clone();
  const auto all = ids.mutable_as<int32_t>();
  const Tensor given = prepared.at("targets").to(DType::i32);
  const auto targets = given.as<int32_t>();
  for (size_t i = 0; i < all.size(); ++i) {
    if (targets[i] >= 0) all[i] = targets[i];
  }
  return ids;
}

Teacher::Teacher(const Options& options)
    : kind_(kind_of(options.str("teacher"))), attention_(options.str("teacher_attention")),
      input_(options.str("teacher_input")) {}

std::vector<std::string> Teacher::parts() const {
  return kind_ == TeacherKind::model ? std::vector<std::string>{model::kTeacherPart}
                                     : std::vector<std::string>{};
}

void Teacher::feed(const Batch& prepared, Batch& feed) const {
  if (kind_ == TeacherKind::rows) return;
  Batch rows;
  rows.set("ids", clean_ids(prepared));
  for (const char* name : {"positions", "segments", "keys"}) {
    if (const Tensor* array = prepared.find(name)) rows.set(name, *array);
  }
  // The arrays of causal and of bidirectional attention are equal. The block is in the graph.
  const Batch arrays =
      model::input_arrays(model::parse_tokens(rows, {}), model::AttentionKind::bidirectional, 0);
  for (const auto& [name, array] : arrays) feed.set(std::string(kPrefix) + name, array);
}

void Teacher::check(const model::Model& model) const {
  if (kind_ != TeacherKind::base || !model.parts().adapters().empty()) return;
  fail_with_hint("train an adapter, or name a model as the teacher", Code::failed_precondition,
                 "the teacher is the model without its adapters, and the model has none");
}

model::Builder& Teacher::network(model::Builder& builder) const {
  return kind_ == TeacherKind::model ? builder.part(model::kTeacherPart)
                                     : builder.without_adapters();
}

model::AttentionKind Teacher::attention(model::Builder& builder) const {
  const model::AttentionKind wanted = model::attention_from_name(attention_);
  if (wanted != model::AttentionKind::automatic) return wanted;
  return kind_ == TeacherKind::model ? network(builder).config().attention
                                     : model::AttentionKind::causal;
}

int Teacher::shift(model::Builder& builder) const {
  const bool is_causal = attention(builder) == model::AttentionKind::causal;
  return is_causal ? 1 : network(builder).config().shift;
}

TeacherInput Teacher::input(model::Builder& builder) const {
  if (input_ == "clean") return TeacherInput::clean;
  const bool is_causal = attention(builder) == model::AttentionKind::causal;
  return input_ == "auto" && is_causal ? TeacherInput::clean : TeacherInput::noised;
}

const model::ForwardOutputs& Teacher::forward(model::Builder& builder,
                                              const std::map<std::string, graph::Value>& arrays,
                                              TeacherInput input, graph::Value tap_rows) {
  const auto known = passes_.find(input);
  if (known != passes_.end()) return known->second;
  const graph::Value ids =
      input == TeacherInput::noised ? arrays.at("ids") : arrays.at(std::string(kPrefix) + "ids");
  return passes_[input] = forward_over(builder, arrays, ids, tap_rows);
}

model::ForwardOutputs Teacher::forward_over(model::Builder& builder,
                                            const std::map<std::string, graph::Value>& arrays,
                                            graph::Value ids, graph::Value tap_rows) const {
  std::map<std::string, graph::Value> own;
  for (const auto& [name, value] : arrays) {
    if (name.starts_with(kPrefix)) own[name.substr(kPrefix.size())] = value;
  }
  own["ids"] = ids;
  model::Builder& teacher = network(builder);
  const model::AttentionKind kind = attention(builder);
  if (kind == model::AttentionKind::block_causal) {
    own["block"] =
        graph::scalar_i32(builder.graph(), static_cast<int32_t>(teacher.config().block_length));
  }
  if (teacher.config().time_conditioning)
    fail(Code::unimplemented, "a teacher that is conditioned on time is not supported");
  model::ForwardInputs inputs = model::forward_inputs(own, kind, false);
  inputs.tap_rows = tap_rows;
  return teacher.forward(inputs, tap_rows.defined());
}

std::vector<OptionSpec> Teacher::option_rows() {
  std::vector<OptionSpec> rows;
  rows.push_back(
      option_choice("teacher", "base", {"base", "model", "rows"},
                    "Teacher of " + term_names("and", &TermEntry::reads_teacher) +
                        ". base: the model without its adapters; model: the part of the "
                        "model that is named teacher; rows: numbers of a file of row arrays."));
  rows.push_back(option_choice("teacher_attention", "auto",
                               {"auto", "causal", "bidirectional", "block_causal"},
                               "Attention of the teacher; auto: causal for base, and a model's "
                               "own."));
  rows.push_back(option_choice("teacher_input", "auto", {"auto", "clean", "noised"},
                               "Tokens that the teacher of " +
                                   term_names("and", &TermEntry::reads_predictions) +
                                   " sees; auto: clean for a causal teacher, noised for others."));
  return rows;
}

} // namespace dllm::noise
