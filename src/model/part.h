#pragma once
// The parts of a model: sets of parameters with a name and an origin. "base" is the network itself; an adapter adds to
// the matrices of the base; another network ("teacher", "encoder") has a config of its own.

#include "model/config.h"
#include "model/part_origin.h"

#include <compare>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::model {

inline constexpr const char* kBasePart = "base";

enum class PartKind {
  network, // has layers of its own
  adapter, // low-rank products that are added to matrices of the base
};

// What the matrices of an adapter were made from.
struct AdapterSettings {
  std::vector<std::string> targets; // patterns of logical names of the base
  int64_t rank = 0;
  double alpha = 0; // a product is multiplied by alpha / rank
};

struct Part {
  std::string name; // "base" "adapter:math" "teacher"
  PartKind kind = PartKind::network;
  ModelConfig config;       // of a network
  AdapterSettings settings; // of an adapter
  PartOrigin origin;        // what is not known: the part has its numbers by value alone
};

// "model.norm.weight" of the base, "teacher/model.norm.weight" of another part.
std::string qualified_name(std::string_view part, std::string_view name);
// The part and the name inside of it.
std::pair<std::string, std::string> split_name(std::string_view qualified);

// The parts that a program reads, in the order of its inputs, the network of its forward pass first. Two programs of one
// model with unequal lists are not the same program.
class PartList {
public:
  PartList() : names_({kBasePart}) {}
  explicit PartList(std::vector<std::string> names) : names_(std::move(names)) {}

  const std::vector<std::string>& names() const { return names_; }
  bool has(std::string_view part) const;
  std::string text() const; // "base adapter:math"
  friend auto operator<=>(const PartList&, const PartList&) = default;

private:
  std::vector<std::string> names_;
};

// The parts of one model, the base first. May be called from any thread. A part that was added stays as it is, but for its
// origin, and for the config of the base, which the model guards.
class PartTable {
public:
  explicit PartTable(ModelConfig base);

  Part& base() { return *parts_.front(); }
  void set_origin(const std::string& name, const PartOrigin& origin);
  const Part& base() const { return *parts_.front(); }
  bool has(std::string_view name) const;
  bool has_adapters() const;
  std::vector<std::string> names() const;
  // Fails with not_found and the nearest name.
  std::shared_ptr<const Part> find(const std::string& name) const;
  // Fails with invalid_argument for a name with other characters than letters, digits and : _ -, and with
  // already_exists for a name that is taken.
  void add(Part part);
  void drop(const std::string& name);
  // The base, its adapters, and the parts of these names. Fails with not_found as find() does.
  PartList reading(const std::vector<std::string>& others) const;

private:
  mutable std::mutex mutex_; // of the list
  std::vector<std::shared_ptr<Part>> parts_;
};

} // namespace dllm::model
