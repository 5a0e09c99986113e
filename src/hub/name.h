#pragma once
// Names of repositories on the hub: "org/name", "org/name@revision:file", "dataset:org/name".

#include <optional>
#include <string>
#include <string_view>

namespace dllm::hub {

enum class RepoKind { model, dataset };

struct Name {
  RepoKind kind = RepoKind::model;
  std::string repo;              // "org/name"
  std::string revision = "main"; // a branch, a tag or a commit
  // A file of the repository, a pattern with * and ?, or a word in the name of one GGUF file
  // ("Q4_K_M"). "": the files that are usually needed.
  std::string file;
};

// Returns the repository that a text names, or nothing if the text is not such a name. `kind` is
// the kind of a text without "dataset:".
std::optional<Name> parse_name(std::string_view text, RepoKind kind = RepoKind::model);
// As parse_name, but fails with invalid_argument.
Name need_name(std::string_view text, RepoKind kind = RepoKind::model);

// Addresses name files of a data set as fsspec does: "hf://datasets/org/name@revision/file". The
// revision has no '/', and `file` may be a folder or a pattern.

bool is_address(std::string_view text); // true for a text that begins with "hf://"
// Fails with invalid_argument for a text that begins with "hf://" and is not such an address.
Name parse_address(std::string_view text);
std::string address_of(const Name& name);

// "model org/name" or "data set org/name", for messages.
std::string shown(const Name& name);
// The text from which parse_name makes the name: "org/name@v2:file.gguf".
std::string text_of(const Name& name);

// Returns true for 40 lower-case hexadecimal digits.
bool is_commit(std::string_view text);
// Returns true for 64 lower-case hexadecimal digits.
bool is_sha256(std::string_view text);
// Returns true if a relative path stays below its folder. Such a path has no part that is empty,
// "." or "..", no control character and no backslash. Its parts have at most 255 bytes.
bool is_safe_path(std::string_view path);

} // namespace dllm::hub
