#include "model/params/part.h"

#include "base/error.h"
#include "base/named_table.h"

#include <algorithm>

namespace dllm::model {

std::string qualified_name(std::string_view part, std::string_view name) {
  return part == kBasePart ? std::string(name) : fmt::format("{}/{}", part, name);
}

std::pair<std::string, std::string> split_name(std::string_view qualified) {
  const size_t cut = qualified.find('/');
  if (cut == std::string_view::npos) return {kBasePart, std::string(qualified)};
  return {std::string(qualified.substr(0, cut)), std::string(qualified.substr(cut + 1))};
}

bool is_filler_part(std::string_view part) {
  return part == kFillerPart ||
         (part.starts_with(kFillerPart) && part.substr(kFillerPart.size()).starts_with('_'));
}

bool PartList::has(std::string_view part) const {
  return std::ranges::find(names_, part) != names_.end();
}

void PartList::add(std::string part, double weight) {
  names_.push_back(std::move(part));
  weights_.push_back(weight);
}

double PartList::weight(std::string_view part) const {
  const auto found = std::ranges::find(names_, part);
  return found == names_.end() ? 1 : weights_[static_cast<size_t>(found - names_.begin())];
}

std::string PartList::text() const {
  std::string text;
  for (size_t i = 0; i < names_.size(); ++i) {
    text += (i == 0 ? "" : " ") + names_[i];
    if (weights_[i] != 1) text += fmt::format("*{}", weights_[i]);
  }
  return text;
}

PartTable::PartTable(ModelConfig base) {
  parts_.push_back(std::make_shared<Part>());
  parts_.front()->name = kBasePart;
  parts_.front()->config = std::move(base);
}

bool PartTable::has(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(parts_, [&](const auto& part) { return part->name == name; });
}

std::vector<std::string> PartTable::names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& part : parts_) names.push_back(part->name);
  return names;
}

std::vector<std::string> PartTable::fillers() const {
  std::vector<std::string> names = networks();
  std::erase_if(names, [](const std::string& name) { return !is_filler_part(name); });
  return names;
}

// Leaves out the base.
std::vector<std::string> PartTable::of_kind(PartKind kind) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& part : parts_) {
    if (part->kind == kind && part != parts_.front()) names.push_back(part->name);
  }
  return names;
}

std::shared_ptr<const Part> PartTable::find(const std::string& name) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::ranges::find_if(parts_, [&](const auto& part) { return part->name == name; });
    if (found != parts_.end()) return *found;
  }
  fail_unnamed({"part", "in the model"}, name, names());
}

void PartTable::add(Part part) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ':' ||
           c == '_' || c == '-';
  };
  if (part.name.empty() || !std::ranges::all_of(part.name, is_allowed)) {
    fail_with_hint("use letters, digits and : _ -", Code::invalid_argument,
                   "'{}' is not a name for a part of a model", part.name);
  }
  if (has(part.name)) {
    fail_with_hint("choose another name, or load the model again", Code::already_exists,
                   "the model has a part named {} already", part.name);
  }
  const std::lock_guard lock(mutex_);
  part.number = ++added_;
  parts_.push_back(std::make_shared<Part>(std::move(part)));
}

void PartTable::set_origin(const std::string& name, const PartOrigin& origin) {
  const std::lock_guard lock(mutex_);
  for (std::shared_ptr<Part>& part : parts_) {
    if (part->name == name) part->origin = origin;
  }
}

void PartTable::set_scale(const std::string& name, float scale) {
  const std::lock_guard lock(mutex_);
  for (std::shared_ptr<Part>& part : parts_) {
    if (part->name != name) continue;
    Part changed = *part; // a reader may hold the old one
    changed.scale = scale;
    part = std::make_shared<Part>(std::move(changed));
  }
}

std::optional<PartOrigin> PartTable::origin(const std::string& name) const {
  const std::shared_ptr<const Part> part = find(name);
  const std::lock_guard lock(mutex_);
  return part->origin;
}

void PartTable::drop(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(parts_, [&](const auto& part) { return part->name == name; });
}

PartList PartTable::reading(const std::vector<std::string>& others) const {
  std::vector<std::string> names = adapters();
  names.insert(names.begin(), kBasePart);
  for (std::string& filler : fillers()) names.push_back(std::move(filler));
  for (const std::string& other : others) {
    find(other);
    if (std::ranges::find(names, other) == names.end()) names.push_back(other);
  }
  return PartList(std::move(names));
}

} // namespace dllm::model
