#pragma once
// The list of a model's parameters, made while families and layer kinds name theirs.

#include "model/config.h"
#include "model/param_map.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

// What a family's files call a parameter, by our name of it: "embedding", "norm", "head", and of a layer "q", "gate" ...
// ("{}" stands for the layer, "[]" for the expert). Biases have the name of their weight with "bias" for its last word,
// unless "q.bias" is there.
struct TensorNames {
  std::map<std::string, std::string, std::less<>> files;
  std::string layer = "model.layers.{}."; // of layer kinds that the family does not name
  bool transpose = false;                 // matrices are stored (in, out)

  std::string& operator[](const std::string& name) { return files[name]; }
  bool has(std::string_view name) const;
};

// Parameters in the order in which they are numbered.
class ParamTable {
public:
  ParamTable(const ModelConfig& config, TensorNames names)
      : config_(config), names_(std::move(names)) {}

  // What follows belongs to these layers: names get the run's prefix, shapes a leading axis.
  void begin(const LayerRun& run);
  void set_kind(const std::string& kind) { kind_ = kind; }
  void end_layers();

  bool has(std::string_view name) const { return names_.has(name); }
  // file: the key in TensorNames where it is not the name.
  void add(const std::string& name, ParamRole role, Shape element, const std::string& file = "");
  // (out, in) and, with bias, (out).
  void matrix(const std::string& name, int64_t out, int64_t in, bool bias = false,
              const std::string& file = "");
  // A bias where the family names one.
  void norm(const std::string& name, int64_t size);
  // One matrix (out, in) per expert, stacked.
  void experts(const std::string& name, int64_t count, int64_t out, int64_t in);

  std::vector<ParamSpec> take() { return std::move(specs_); }

private:
  std::string file_of(const std::string& name) const;

  const ModelConfig& config_;
  TensorNames names_;
  std::string prefix_, kind_;
  int64_t layers_ = 0, first_layer_ = 0;
  std::vector<ParamSpec> specs_;
};

} // namespace dllm::model
