#include "hub/name.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::hub {
namespace {

constexpr std::string_view kDataset = "dataset:";
constexpr std::string_view kScheme = "hf://", kDatasets = "hf://datasets/";
constexpr size_t kMostRepo = 96; // characters, the limit of the hub

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// One half of "org/name". "--" separates the halves in the names of folders of the cache.
bool is_half(std::string_view text) {
  const auto fits = [](char c) { return is_word_character(c) || c == '-' || c == '.'; };
  return !text.empty() && is_word_character(text.front()) && is_word_character(text.back()) &&
         std::all_of(text.begin(), text.end(), fits) && text.find("--") == std::string_view::npos &&
         text.find("..") == std::string_view::npos;
}

bool is_repo(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && text.size() <= kMostRepo &&
         is_half(text.substr(0, slash)) && is_half(text.substr(slash + 1)) &&
         !text.ends_with(".git");
}

bool are_hex_digits(std::string_view text, size_t count) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == count && std::all_of(text.begin(), text.end(), is_digit);
}

} // namespace

bool is_commit(std::string_view text) {
  return are_hex_digits(text, 40);
}

bool is_sha256(std::string_view text) {
  return are_hex_digits(text, 64);
}

bool is_safe_path(std::string_view path) {
  constexpr size_t kMostPath = 1024, kMostPart = 255;
  if (path.size() > kMostPath) return false;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\') return false;
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > kMostPart) return false;
    begin = end + 1;
  }
  return true;
}

std::optional<Name> parse_name(std::string_view text, RepoKind kind) {
  Name made;
  made.kind = kind;
  if (text.starts_with(kDataset)) {
    made.kind = RepoKind::dataset;
    text.remove_prefix(kDataset.size());
  }
  const size_t colon = text.find(':'), at = text.substr(0, colon).find('@');
  if (colon != std::string_view::npos) {
    made.file = std::string(text.substr(colon + 1));
    if (!is_safe_path(made.file)) return std::nullopt;
    text = text.substr(0, colon);
  }
  if (at != std::string_view::npos) {
    made.revision = std::string(text.substr(at + 1));
    if (!is_safe_path(made.revision)) return std::nullopt;
    text = text.substr(0, at);
  }
  if (!is_repo(text)) return std::nullopt;
  made.repo = std::string(text);
  return made;
}

Name need_name(std::string_view text, RepoKind kind) {
  if (std::optional<Name> found = parse_name(text, kind)) return *found;
  fail_with_hint("write org/name, org/name@revision or org/name:file", Code::invalid_argument,
                 "\"{}\" is not a name of the hub", text.substr(0, 200));
}

bool is_address(std::string_view text) {
  return text.starts_with(kScheme);
}

Name parse_address(std::string_view text) {
  Name made;
  made.kind = RepoKind::dataset;
  std::string_view rest = text.substr(std::min(text.size(), kDatasets.size()));
  const size_t slash = rest.find('/');
  const size_t end = slash == rest.npos ? slash : rest.find('/', slash + 1);
  if (end != rest.npos) made.file = std::string(rest.substr(end + 1));
  while (made.file.ends_with('/')) made.file.pop_back();
  rest = rest.substr(0, end);
  if (const size_t at = rest.find('@'); at != rest.npos) {
    made.revision = std::string(rest.substr(at + 1));
    rest = rest.substr(0, at);
  }
  made.repo = std::string(rest);
  const bool fits = text.starts_with(kDatasets) && is_repo(made.repo) &&
                    is_safe_path(made.revision) && (made.file.empty() || is_safe_path(made.file));
  if (fits) return made;
  fail_with_hint("write hf://datasets/org/name, hf://datasets/org/name@revision/FILE",
                 Code::invalid_argument, "\"{}\" is not the address of a data set",
                 text.substr(0, 200));
}

std::string address_of(const Name& name) {
  return std::string(kDatasets) + name.repo + (name.revision == "main" ? "" : "@" + name.revision) +
         (name.file.empty() ? "" : "/" + name.file);
}

std::string shown(const Name& name) {
  return (name.kind == RepoKind::model ? "model " : "data set ") + name.repo;
}

std::string text_of(const Name& name) {
  return (name.kind == RepoKind::model ? "" : std::string(kDataset)) + name.repo +
         (name.revision == "main" ? "" : "@" + name.revision) +
         (name.file.empty() ? "" : ":" + name.file);
}

} // namespace dllm::hub
