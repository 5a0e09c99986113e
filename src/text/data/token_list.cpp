#include "text/tokenizer.h"

#include "base/error.h"
#include "base/json.h"
#include "text/json_reader.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace dllm::text {

namespace {

const std::string kListFile = "tokenizer.json";

// A token of added_tokens; id -1: the token has no id.
struct ListedToken {
  std::string text;
  int64_t id = -1;
};

ListedToken read_listed(JsonScanner& json) {
  ListedToken token;
  std::string key;
  if (json.next() != '{') {
    json.skip();
    return token;
  }
  json.open_object();
  while (json.next_key(key)) {
    const char next = json.next();
    if (key == "content" && next == '"') {
      token.text = json.string();
    } else if (key == "id" && next == '0') {
      if (!json.integer(token.id)) token.id = -1;
    } else {
      json.skip();
    }
  }
  return token;
}

// Calls visit(text, id) for each token of a vocabulary: {"token": id} of BPE and WordPiece, or
// [["token", score]] of Unigram.
template <class Visit> void visit_vocabulary(JsonScanner& json, const Visit& visit) {
  std::string token;
  int64_t id = 0;
  if (json.next() == '{') {
    json.open_object();
    while (json.next_key(token)) {
      if (json.next() != '0') {
        json.skip();
      } else if (json.integer(id)) {
        visit(token, id);
      }
    }
  } else if (json.next() == '[') {
    json.open_array();
    for (int64_t index = 0; json.next_item(); ++index) {
      token.clear();
      if (json.next() != '[') {
        json.skip();
      } else {
        json.open_array();
        for (bool first = true; json.next_item(); first = false) {
          if (first && json.next() == '"')
            token = json.string();
          else
            json.skip();
        }
      }
      visit(token, index);
    }
  } else {
    json.skip();
  }
}

template <class Visit> void visit_model(JsonScanner& json, const Visit& visit) {
  std::string key;
  if (json.next() != '{') return json.skip();
  json.open_object();
  while (json.next_key(key)) {
    if (key == "vocab")
      visit_vocabulary(json, visit);
    else
      json.skip();
  }
}

// The position of the value of "added_tokens" in the text, [begin, end).
struct AddedPlace {
  size_t begin = 0, end = 0; // both 0: no such member
  bool is_array = false;
  bool has_items = false;
  size_t first_member = 0;  // after the brace of the whole object
  bool has_members = false; // the whole object has members
};

// Calls visit(text, id, added) for every token. An id below 0 means that the token has no id.
// added: the token is in added_tokens.
template <class Visit> AddedPlace visit_tokens(std::string_view text, const Visit& visit) {
  JsonScanner json(text, kListFile);
  AddedPlace place;
  std::string key;
  if (json.next() != '{') fail(Code::data_loss, "{} must hold an object", kListFile);
  place.first_member = json.at() + 1;
  json.open_object();
  while (json.next_key(key)) {
    place.has_members = true;
    if (key == "model") {
      visit_model(json, [&](std::string_view token, int64_t id) { visit(token, id, false); });
    } else if (key == "added_tokens") {
      place.is_array = json.next() == '[';
      place.begin = json.at();
      place.has_items = false;
      if (place.is_array) {
        json.open_array();
        while (json.next_item()) {
          place.has_items = true;
          const ListedToken token = read_listed(json);
          visit(token.text, token.id, true);
        }
      } else {
        json.skip();
      }
      place.end = json.at();
    } else {
      json.skip();
    }
  }
  json.end();
  return place;
}

Json mask_entry(int64_t id) {
  return {{"id", id},        {"content", kMaskToken}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false},   {"special", true}};
}

} // namespace

std::optional<int64_t> find_token(std::string_view tokenizer_json,
                                  std::span<const std::string> names) {
  // A tokenizer.json has some ten megabytes, so it is walked over only when it contains one of the
  // names.
  const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return tokenizer_json.find(name) != std::string_view::npos;
  });
  if (!named) return std::nullopt;
  std::vector<int64_t> ids(names.size(), -1);
  visit_tokens(tokenizer_json, [&](std::string_view text, int64_t id, bool) {
    const auto at =
        static_cast<size_t>(std::find(names.begin(), names.end(), text) - names.begin());
    if (at < ids.size() && id >= 0) ids[at] = id;
  });
  for (const int64_t id : ids) {
    if (id >= 0) return id;
  }
  return std::nullopt;
}

void list_tokens(std::string_view tokenizer_json, const VisitToken& visit) {
  visit_tokens(tokenizer_json, visit);
}

void list_vocabulary(std::string_view vocab_json, const VisitToken& visit) {
  static const std::string kName = "vocab.json";
  JsonScanner json(vocab_json, kName);
  visit_vocabulary(json, [&](std::string_view text, int64_t id) { visit(text, id, false); });
  json.end();
}

int64_t count_tokens(std::string_view tokenizer_json) {
  int64_t last = -1;
  visit_tokens(tokenizer_json,
               [&](std::string_view, int64_t id, bool) { last = std::max(last, id); });
  return last + 1;
}

std::string add_mask_token(std::string_view tokenizer_json, int64_t id) {
  const AddedPlace place = visit_tokens(tokenizer_json, [](std::string_view, int64_t, bool) {});
  const std::string entry = mask_entry(id).dump();
  std::string made(tokenizer_json);
  if (place.is_array) {
    made.insert(place.end - 1, (place.has_items ? "," : "") + entry);
  } else if (place.end > 0) {
    made.replace(place.begin, place.end - place.begin, "[" + entry + "]");
  } else {
    made.insert(place.first_member,
                R"("added_tokens":[)" + entry + (place.has_members ? "]," : "]"));
  }
  return made;
}

std::string name_mask_token(std::string_view config_json, int64_t id) {
  Json config = parse_json(config_json, "tokenizer_config.json");
  if (!config.is_object()) return std::string(config_json);
  config["mask_token"] = kMaskToken;
  if (const auto listed = config.find("added_tokens_decoder");
      listed != config.end() && listed->is_object()) {
    Json entry = mask_entry(id);
    entry.erase("id");
    (*listed)[std::to_string(id)] = entry;
  }
  return config.dump(2);
}

} // namespace dllm::text
