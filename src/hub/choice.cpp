#include "hub/choice.h"

#include "base/ascii.h"
#include "base/error.h"
#include "base/number.h"

#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <string_view>

namespace dllm::hub {
namespace {

using Files = std::vector<RemoteFile>;

constexpr std::string_view kDescriptions[] = {"config.json",
                                              "generation_config.json",
                                              "adapter_config.json",
                                              "tokenizer.json",
                                              "tokenizer_config.json",
                                              "special_tokens_map.json",
                                              "added_tokens.json",
                                              "vocab.json",
                                              "merges.txt",
                                              "tokenizer.model",
                                              "vocab.txt",
                                              "chat_template.jinja",
                                              "chat_template.json",
                                              "model.safetensors.index.json",
                                              "pytorch_model.bin.index.json"};

// Endings of the files that readers of rows take (text/readers/), each also with ".gz".
constexpr std::string_view kRows[] = {".parquet", ".jsonl", ".ndjson", ".jsonlines",
                                      ".csv",     ".tsv",   ".txt",    ".json"};
// Files of a data set that describe it.
constexpr std::string_view kFacts[] = {"dataset_info.json", "dataset_infos.json",
                                       "dataset_dict.json", "state.json",
                                       "config.json",       "croissant.json"};

// Returns true if a file is part of a model's description, which comes before its weights.
bool is_description(const std::string& path) {
  return std::find(std::begin(kDescriptions), std::end(kDescriptions), path) !=
         std::end(kDescriptions);
}

bool is_at_top(const std::string& path) {
  return path.find('/') == std::string::npos;
}

Files files_that(const Listing& listing, const std::function<bool(const std::string&)>& fits) {
  Files found;
  std::copy_if(listing.files.begin(), listing.files.end(), std::back_inserter(found),
               [&](const RemoteFile& file) { return fits(file.path); });
  return found;
}

Files descriptions_of(const Listing& listing) {
  return files_that(
      listing, [](const std::string& path) { return is_at_top(path) && is_description(path); });
}

bool lists(const Listing& listing, const std::string& path) {
  return !files_that(listing, [&](const std::string& own) { return own == path; }).empty();
}

bool is_rows(std::string path) {
  path = lower_case(std::move(path));
  if (path.ends_with(".gz")) path.resize(path.size() - 3);
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  if (name.starts_with('.') || std::ranges::find(kFacts, name) != std::end(kFacts)) return false;
  return std::any_of(std::begin(kRows), std::end(kRows),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

// Returns the name of a split GGUF file without "-00001-of-00003.gguf", else the whole path.
std::string gguf_stem(const std::string& path) {
  constexpr std::string_view kPart = "-00001-of-00003.gguf";
  if (path.size() <= kPart.size()) return path;
  const std::string part = path.substr(path.size() - kPart.size());
  const bool is_part = ::fnmatch("-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].gguf",
                                 part.c_str(), 0) == 0;
  return is_part ? path.substr(0, path.size() - kPart.size()) : path;
}

// Returns the first file of each GGUF model, which may have several files. A projector of pictures
// is not a model.
Files gguf_models(const Listing& listing) {
  Files found;
  for (const RemoteFile& file : listing.files) {
    if (!file.path.ends_with(".gguf") || file.path.find("mmproj") != std::string::npos) continue;
    const bool is_later = !found.empty() && gguf_stem(found.back().path) == gguf_stem(file.path) &&
                          gguf_stem(file.path) != file.path;
    if (!is_later) found.push_back(file);
  }
  return found;
}

std::string listed(const Files& files) {
  constexpr size_t kMost = 20;
  std::string text;
  for (size_t i = 0; i < std::min(files.size(), kMost); ++i) {
    text += (i == 0 ? "" : ", ") + files[i].path;
    if (files[i].size >= 0) text += " (" + memory_text(static_cast<double>(files[i].size)) + ")";
  }
  return text + (files.size() > kMost ? fmt::format(" and {} more", files.size() - kMost) : "");
}

// All files of the GGUF model that begins with `first`.
Choice gguf_choice(const Listing& listing, const RemoteFile& first) {
  Choice made;
  made.path = first.path;
  const std::string stem = gguf_stem(first.path);
  made.contents = files_that(listing, [&](const std::string& path) {
    return path == first.path || (stem != first.path && gguf_stem(path) == stem);
  });
  return made;
}

std::string upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

// Returns the choice for "org/name:FILE", where FILE is a file, a pattern or a word of a GGUF file.
Choice named_choice(const Listing& listing, const Name& name) {
  const Files ggufs = gguf_models(listing);
  for (const RemoteFile& first : ggufs) {
    if (first.path == name.file) return gguf_choice(listing, first);
  }
  Choice made;
  made.contents = files_that(listing, [&](const std::string& path) {
    return path == name.file || ::fnmatch(name.file.c_str(), path.c_str(), 0) == 0;
  });
  if (lists(listing, name.file)) made.path = name.file;
  if (!made.contents.empty()) return made;
  Files with_word;
  std::copy_if(ggufs.begin(), ggufs.end(), std::back_inserter(with_word), [&](const auto& file) {
    return upper(file.path).find(upper(name.file)) != std::string::npos;
  });
  if (with_word.size() == 1) return gguf_choice(listing, with_word[0]);
  fail_with_hint(with_word.empty() ? "" : "name one of " + listed(with_word), Code::not_found,
                 "{} has no file {}{}", shown(name), name.file,
                 ggufs.empty() ? "" : "; its GGUF files are " + listed(ggufs));
}

// Returns the weights of one format: the shards of the file `stem` if it has an index, else the
// file itself.
Files weights_of(const Listing& listing, const std::string& stem, const std::string& ending) {
  const auto fits = [&](const std::string& pattern) {
    return files_that(listing, [&](const std::string& path) {
      return is_at_top(path) && ::fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
    });
  };
  Files found;
  if (lists(listing, stem + ending + ".index.json")) found = fits(stem + "-*-of-*" + ending);
  if (found.empty() && lists(listing, stem + ending)) found = fits(stem + ending);
  return found;
}

Choice model_choice(const Listing& listing, const Name& name) {
  Choice made;
  made.descriptions = descriptions_of(listing);
  const bool is_adapter = lists(listing, "adapter_config.json");
  if (is_adapter) made.contents = weights_of(listing, "adapter_model", ".safetensors");
  if (made.contents.empty()) made.contents = weights_of(listing, "model", ".safetensors");
  if (made.contents.empty()) {
    made.contents = files_that(listing, [](const std::string& path) {
      return is_at_top(path) && path.ends_with(".safetensors");
    });
  }
  if (made.contents.empty()) made.contents = weights_of(listing, "pytorch_model", ".bin");
  if (!made.contents.empty()) return made;
  const Files ggufs = gguf_models(listing);
  if (ggufs.size() == 1) return gguf_choice(listing, ggufs[0]);
  if (ggufs.empty()) {
    fail_with_hint("name a file as org/name:FILE", Code::not_found,
                   "{} has no weights that can be read: no safetensors, .bin or GGUF file",
                   shown(name));
  }
  fail_with_hint(fmt::format("write {}:{}", name.repo, ggufs.front().path),
                 Code::failed_precondition, "{} has {} GGUF files, and one has to be named: {}",
                 shown(name), ggufs.size(), listed(ggufs));
}

// Returns the folder that has all files, "" for the top: readers take the files of one folder.
std::string common_folder(const Files& files) {
  if (files.empty()) return "";
  std::string folder = files.front().path;
  for (const RemoteFile& file : files) {
    while (!folder.empty() && !file.path.starts_with(folder + "/"))
      folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
  }
  return folder;
}

Choice dataset_choice(const Listing& listing, const Name& name) {
  Choice made = choose_rows(listing);
  if (!made.contents.empty()) return made;
  fail_with_hint("name a file as dataset:org/name:FILE", Code::not_found,
                 "{} has no rows that can be read: no .parquet, .jsonl, .ndjson, .json, .csv, .tsv "
                 "or .txt file",
                 shown(name));
}

} // namespace

Choice choose_rows(const Listing& listing) {
  Choice made;
  made.contents = files_that(listing, is_rows);
  made.path = common_folder(made.contents);
  return made;
}

Choice choose_descriptions(const Listing& listing, const Name& name) {
  Choice made;
  made.descriptions = descriptions_of(listing);
  if (!lists(listing, "config.json") && !lists(listing, "adapter_config.json"))
    fail(Code::not_found, "{} has no config.json", shown(name));
  return made;
}

Choice choose_files(const Listing& listing, const Name& name) {
  if (!name.file.empty()) return named_choice(listing, name);
  return name.kind == RepoKind::model ? model_choice(listing, name) : dataset_choice(listing, name);
}

} // namespace dllm::hub
