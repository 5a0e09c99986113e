#include "text/token_facts.h"

#include "text/tokenizer.h"
#include "text/tokenizer/files/special_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace dllm::text {
namespace {

constexpr const char* kTokensFile = "tokenizer.json";
constexpr const char* kVocabularyFile = "vocab.json";

// Ids of the texts that can end an answer, by text.
class Walk {
public:
  explicit Walk(const SpecialFiles& files) {
    for (const auto& [key, text] : files.named) {
      if (key == "eos_token" || key == "eot_token" || key == "eom_token") ids_[text] = -1;
    }
    for (const char* name : kUsualEnds) ids_.emplace(name, -1);
  }

  void add(std::string_view text, int64_t id, bool is_added) {
    constexpr int64_t kMost = int64_t{1} << 26; // larger ids are not in a vocabulary
    if (id < 0 || id >= kMost || text.empty()) return;
    if (id >= static_cast<int64_t>(facts.used.size()))
      facts.used.resize(static_cast<size_t>(id + 1));
    facts.used[static_cast<size_t>(id)] = 1;
    const auto found = ids_.find(text);
    if (found == ids_.end()) return;
    found->second = id;
    if (is_added) added_.insert(found->first);
  }

  int64_t id_of(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? -1 : found->second;
  }
  bool is_added(const std::string& text) const { return added_.count(text) != 0; }

  TokenFacts facts;

private:
  std::map<std::string, int64_t, std::less<>> ids_;
  std::set<std::string> added_;
};

// Finds the token with the role eos in the same order as Tokenizer.
int64_t find_eos(const SpecialFiles& files, const Walk& walk) {
  for (auto entry = files.named.rbegin(); entry != files.named.rend(); ++entry) {
    const int64_t id = entry->first == "eos_token" ? walk.id_of(entry->second) : -1;
    if (id >= 0) return id;
  }
  if (walk.facts.has(files.ids.eos)) return files.ids.eos;
  for (const char* name : kUsualEnds) {
    if (walk.is_added(name)) return walk.id_of(name);
  }
  return -1;
}

} // namespace

TokenFacts read_token_facts(const Source& source) {
  const bool has_tokenizer = source.has(kTokensFile);
  if (!has_tokenizer && !source.has(kVocabularyFile)) return {};
  const SpecialFiles files = read_special_files(source);
  Walk walk(files);
  const auto add = [&](std::string_view text, int64_t id, bool is_added) {
    walk.add(text, id, is_added);
  };
  if (has_tokenizer)
    list_tokens(source.open(kTokensFile).text(), add);
  else
    list_vocabulary(source.open(kVocabularyFile).text(), add);
  for (const AddedToken& token : files.added) {
    if (!walk.is_added(token.content)) walk.add(token.content, token.id, true);
  }
  std::set<int32_t> ends;
  const auto end_at = [&](int64_t id) {
    if (walk.facts.has(id)) ends.insert(static_cast<int32_t>(id));
  };
  end_at(find_eos(files, walk));
  for (const int64_t id : files.ends) end_at(id);
  for (const auto& [key, text] : files.named) {
    if (key == "eot_token" || key == "eom_token") end_at(walk.id_of(text));
  }
  walk.facts.known = !walk.facts.used.empty();
  walk.facts.ends.assign(ends.begin(), ends.end());
  return std::move(walk.facts);
}

} // namespace dllm::text
