#include "model/layers/param_table.h"

namespace dllm::model {
namespace {

std::string bias_of(const std::string& weight) {
  return weight.substr(0, weight.rfind('.')) + ".bias";
}

} // namespace

bool TensorNames::has(std::string_view name) const {
  const auto found = files.find(name);
  return found != files.end() && !found->second.empty();
}

std::string ParamTable::file_of(const std::string& name) const {
  if (names_.has(name)) return names_.files.find(name)->second;
  return (layers_ > 0 ? names_.layer + kind_ + "." : "") + name + ".weight";
}

void ParamTable::begin(const LayerRun& run) {
  prefix_ = run.prefix();
  layers_ = run.count;
  first_layer_ = run.first;
}

void ParamTable::end_layers() {
  prefix_.clear();
  layers_ = first_layer_ = 0;
}

void ParamTable::add(const std::string& name, ParamRole role, Shape element,
                     const std::string& file) {
  ParamSpec spec;
  spec.name = prefix_ + name;
  spec.role = role;
  spec.layers = layers_;
  spec.first_layer = first_layer_;
  spec.pieces = {{file_of(file.empty() ? name : file), element[0],
                  names_.transpose && role == ParamRole::weight}};
  spec.element = std::move(element);
  specs_.push_back(std::move(spec));
}

void ParamTable::matrix(const std::string& name, int64_t out, int64_t in, bool bias,
                        const std::string& file) {
  add(name, ParamRole::weight, {out, in}, file);
  if (!bias) return;
  const std::string weight = specs_.back().pieces[0].logical,
                    own = (file.empty() ? name : file) + ".bias";
  add(name + ".bias", ParamRole::bias, {out}, own);
  if (!names_.has(own)) specs_.back().pieces[0].logical = bias_of(weight);
}

void ParamTable::norm(const std::string& name, int64_t size) {
  add(name, config_.centered_norms ? ParamRole::centered_norm : ParamRole::norm, {size});
  if (has(name + ".bias")) add(name + ".bias", ParamRole::bias, {size});
}

void ParamTable::experts(const std::string& name, int64_t count, int64_t out, int64_t in) {
  add(name, ParamRole::weight, {count, out, in});
  std::vector<ParamPiece>& pieces = specs_.back().pieces;
  const std::string file = pieces[0].logical;
  pieces.clear();
  const size_t mark = file.find("[]");
  for (int64_t e = 0; e < count; ++e)
    pieces.push_back({file.substr(0, mark) + std::to_string(e) + file.substr(mark + 2), 1, false});
}

} // namespace dllm::model
