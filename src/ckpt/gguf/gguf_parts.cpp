#include "ckpt/gguf/gguf_parts.h"

#include "base/error.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace dllm::ckpt {
namespace {

constexpr std::string_view kEnding = ".gguf", kOf = "-of-";
constexpr size_t kDigits = 5;

// "<base>-00001-of-00003.gguf"
struct PartName {
  std::string base;
  int number, count;
};

std::optional<int> five_digits(std::string_view text) {
  int number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = 10 * number + (c - '0');
  }
  return number;
}

std::optional<PartName> part_name(const std::string& name) {
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits; // "-00001-of-00003"
  if (!name.ends_with(kEnding) || name.size() <= kTail + kEnding.size()) return std::nullopt;
  const std::string_view stem = std::string_view(name).substr(0, name.size() - kEnding.size());
  const std::string_view tail = stem.substr(stem.size() - kTail);
  const auto number = five_digits(tail.substr(1, kDigits)),
             count = five_digits(tail.substr(kTail - kDigits));
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf || !number || !count ||
      *number < 1 || *number > *count)
    return std::nullopt;
  return PartName{std::string(stem.substr(0, stem.size() - kTail)), *number, *count};
}

std::string name_of(const PartName& part, int number) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", part.base, number, part.count);
}

// Returns all parts of the model that `name` is a part of; `name` alone if it is not a part.
std::vector<std::string> with_siblings(const std::string& name) {
  const auto part = part_name(name);
  if (!part) return {name};
  std::vector<std::string> names;
  for (int number = 1; number <= part->count; ++number) names.push_back(name_of(*part, number));
  return names;
}

// Returns the files of every model that could be in the source, ordered by the first file.
std::vector<std::vector<std::string>> candidates(const Source& source) {
  std::map<std::string, std::vector<std::string>> by_first;
  for (const std::string& name : source.names()) {
    if (!name.ends_with(kEnding)) continue;
    std::vector<std::string> files = with_siblings(name);
    by_first.emplace(files.front(), std::move(files));
  }
  std::vector<std::vector<std::string>> found;
  for (auto& [first, files] : by_first) found.push_back(std::move(files));
  return found;
}

// Returns "clip", "adapter", ... for a file that is not a model; "" for a model.
std::string other_kind(const GgufFile& file) {
  constexpr std::string_view kTypes[] = {"mmproj", "adapter", "imatrix", "vocab"};
  const auto text = [&](const char* key) {
    return file.has(key) && file.value(key).type == GgufType::text ? file.text(key) : "";
  };
  const std::string type = text("general.type"), architecture = text("general.architecture");
  if (architecture == "clip") return architecture;
  return std::ranges::find(kTypes, type) != std::end(kTypes) ? type : "";
}

std::string listed(const std::vector<std::vector<std::string>>& groups) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < groups.size() && i < kShown; ++i)
    text += (text.empty() ? "" : ", ") + groups[i].front();
  return groups.size() > kShown ? text + fmt::format(" and {} more", groups.size() - kShown) : text;
}

// A source that has only some files of a folder.
class PartSource final : public Source {
public:
  PartSource(std::unique_ptr<Source> folder, std::vector<std::string> names, std::string path)
      : folder_(std::move(folder)), names_(std::move(names)), path_(std::move(path)) {}

  bool has(const std::string& name) const override {
    return std::ranges::find(names_, name) != names_.end();
  }
  Bytes open(const std::string& name) const override { return folder_->open(checked(name)); }
  ContentRef content(const std::string& name) const override {
    return folder_->content(checked(name));
  }
  std::vector<std::string> names() const override { return names_; }
  std::string describe() const override { return path_; }

private:
  const std::string& checked(const std::string& name) const {
    if (!has(name)) fail(Code::not_found, "{} is part of one model, it has no {}", path_, name);
    return name;
  }

  std::unique_ptr<Source> folder_;
  std::vector<std::string> names_;
  std::string path_;
};

} // namespace

bool holds_gguf(const Source& source) {
  return std::ranges::any_of(source.names(),
                             [](const std::string& name) { return name.ends_with(kEnding); });
}

GgufParts find_gguf(const Source& source) {
  GgufParts parts;
  std::vector<std::vector<std::string>> groups = candidates(source);
  if (groups.size() > 1) {
    std::erase_if(groups, [&](const std::vector<std::string>& files) {
      if (!source.has(files.front())) return false; // the missing first part is reported below
      const std::string kind = other_kind(GgufFile(source.content(files.front()), files.front()));
      if (!kind.empty()) parts.left_out.push_back(files.front() + " (" + kind + ")");
      return !kind.empty();
    });
  }
  if (groups.size() != 1) {
    fail_with_hint("give one of the files instead of the folder", Code::failed_precondition,
                   "{} holds {} .gguf files that could be the model: {}", source.describe(),
                   groups.size(), listed(groups.empty() ? candidates(source) : groups));
  }
  parts.files = std::move(groups.front());
  for (size_t i = 0; i < parts.files.size(); ++i) {
    if (source.has(parts.files[i])) continue;
    fail_with_hint("put all parts into one folder; is the download complete?", Code::not_found,
                   "{}: {}, part {} of {}, is not there", source.describe(), parts.files[i], i + 1,
                   parts.files.size());
  }
  return parts;
}

std::shared_ptr<const GgufFile> open_gguf(const Source& source, const GgufParts& parts) {
  auto whole = std::make_shared<GgufFile>(source.content(parts.files.front()), parts.files.front());
  for (size_t i = 1; i < parts.files.size(); ++i)
    whole->append(GgufFile(source.content(parts.files[i]), parts.files[i]));
  whole->check_parts();
  return whole;
}

std::unique_ptr<Source> open_model_source(const std::string& path) {
  const std::string name = file_name(path);
  if (!part_name(name) || is_directory(path)) return open_source(path);
  if (!file_exists(path)) fail(Code::not_found, "there is no file or folder {}", path);
  const std::string folder = parent_path(path);
  auto all = open_source(folder.empty() ? "." : folder);
  std::vector<std::string> there;
  for (std::string& sibling : with_siblings(name)) {
    if (all->has(sibling)) there.push_back(std::move(sibling));
  }
  return std::make_unique<PartSource>(std::move(all), std::move(there), path);
}

} // namespace dllm::ckpt
