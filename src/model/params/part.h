#pragma once
// The parts of a model: sets of parameters with a name and an origin. "base" is the network itself.
// An adapter changes the products of matrices of the base. Another network ("teacher", "encoder")
// has a config of its own.

#include "base/options.h"
#include "ckpt/part_names.h"
#include "model/config.h"
#include "model/params/part_origin.h"

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::model {

using ckpt::kAdapterPart;
using ckpt::kBasePart;
using ckpt::kFillerPart;
using ckpt::kTeacherPart;

enum class PartKind {
  network, // has layers of its own
  adapter, // tensors that change products with matrices of the base
};

// The numbers of an adapter, as adapter_config.json of PEFT has them. A pattern is a regular
// expression for the end of a module's name, after a dot or at its beginning. The first that
// matches counts. A kind without ranks has rank 0.
struct AdapterSettings {
  int64_t rank = 8;
  double alpha = 16;          // a product is multiplied by alpha / rank
  bool is_stabilised = false; // by alpha / sqrt(rank)
  std::string kind = "lora";  // name in the table of kinds (model/adapters/kinds)
  double dropout = 0;         // training sets this part of the inputs of A to 0
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  std::vector<std::string> targets; // its modules: ends of their names, or whole names
  // Modules whose parameters the adapter has as copies of its own: ends of their names.
  std::vector<std::string> modules_to_save;
  // The module of a head that reads the copy of the embedding, "lm_head"; "": there is none.
  std::string tied_head;
  std::map<std::string, OptionValue> own; // values of options that the kind alone has
};

struct Part {
  std::string name; // "base" "adapter:math" "teacher"
  PartKind kind = PartKind::network;
  ModelConfig config;       // for a network
  AdapterSettings settings; // for an adapter
  float scale = 1;          // of an adapter: its products are multiplied by it; 0: off
  // Set by PartTable::add. A part that is removed and added again has another number.
  int64_t number = 0;
  std::optional<PartOrigin> origin; // unknown: the numbers of the part are stored by value only
};

// Returns "model.norm.weight" for the base, "teacher/model.norm.weight" for another part.
std::string qualified_name(std::string_view part, std::string_view name);
// Returns the part and the name inside of the part.
std::pair<std::string, std::string> split_name(std::string_view qualified);

// Returns true for the networks of a mask filler.
bool is_filler_part(std::string_view part);

// The parts that a program reads, in the order of its inputs, beginning with the network of its
// forward pass. Programs of one model with different lists are different programs.
class PartList {
public:
  PartList() : PartList(std::vector<std::string>{kBasePart}) {}
  explicit PartList(std::vector<std::string> names)
      : names_(std::move(names)), weights_(names_.size(), 1.0) {}

  // Adds a part. The products of an adapter are multiplied by `weight`, and by its scale.
  void add(std::string part, double weight = 1);

  const std::vector<std::string>& names() const { return names_; }
  double weight(std::string_view part) const; // 1 for a part that is not in the list
  bool has(std::string_view part) const;
  std::string text() const; // "base adapter:math adapter:code*0.5"
  friend auto operator<=>(const PartList&, const PartList&) = default;

private:
  std::vector<std::string> names_;
  std::vector<double> weights_; // of each name
};

// The parts of one model, beginning with the base. Any thread may call it. An added part does not
// change, except for its origin and its scale. The model guards the config of the base.
class PartTable {
public:
  explicit PartTable(ModelConfig base);

  Part& base() { return *parts_.front(); }
  void set_origin(const std::string& name, const PartOrigin& origin);
  void set_scale(const std::string& name, float scale);
  std::optional<PartOrigin> origin(const std::string& name) const;
  const Part& base() const { return *parts_.front(); }
  bool has(std::string_view name) const;
  std::vector<std::string> names() const;
  // Return the names of the adapters, and of the networks other than the base.
  std::vector<std::string> adapters() const { return of_kind(PartKind::adapter); }
  std::vector<std::string> networks() const { return of_kind(PartKind::network); }
  // Returns the names of the networks of the mask filler.
  std::vector<std::string> fillers() const;
  // Returns the part. Fails with not_found and the nearest name.
  std::shared_ptr<const Part> find(const std::string& name) const;
  // Adds a part. Fails with invalid_argument when the name has characters other than letters,
  // digits and : _ -, and with already_exists when the name is taken.
  void add(Part part);
  void drop(const std::string& name);
  // Returns the base, its mask filler, its adapters and the parts `others`. Fails with not_found as
  // find() does.
  PartList reading(const std::vector<std::string>& others) const;

private:
  std::vector<std::string> of_kind(PartKind kind) const;

  mutable std::mutex mutex_; // guards the list
  std::vector<std::shared_ptr<Part>> parts_;
  int64_t added_ = 0; // parts that were added so far
};

} // namespace dllm::model
