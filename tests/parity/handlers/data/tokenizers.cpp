// torch/tokenizers: texts to ids and back. strings.json holds the texts, <tokenizer>.json what one
// tokenizer makes of them, by index; one case per tokenizer and kind of expectation.

#include "text/tokenizer.h"

#include "base/error.h"
#include "base/files.h"
#include "handlers.h"
#include "runner.h"
#include "text/json_reader.h"

#include <fmt/format.h>

namespace dllm::parity {
namespace {

using text::Tokenizer;
using text::TreeJson;
using Ids = std::vector<int32_t>;

struct Subject {
  std::shared_ptr<Tokenizer> tokenizer;
  TreeJson want;
  std::vector<std::string> strings;

  const std::string& string(const std::string& index) const {
    return strings.at(static_cast<size_t>(std::stoull(index)));
  }
  // Special tokens written in a text count as such, as they do in the tokenizers library.
  Ids encode(const std::string& index, bool add_special) const {
    return tokenizer->encode(string(index), {.add_special = add_special, .parse_special = true});
  }
};

TreeJson read_tree(const std::string& path) {
  return text::parse_tree(read_text(path), path);
}

// The file of a tokenizer that is stored, or the asset of one that is not; "" when it is not there.
std::string tokenizer_path(Topic& topic, const Json& entry, const std::string& name) {
  if (entry.contains("tokenizer_file") && entry.at("tokenizer_file").is_string()) {
    return join_path(topic.folder(), entry.at("tokenizer_file").get<std::string>());
  }
  for (const char* file : {"tokenizer.json", "vocab.json"}) {
    const std::string path = topic.asset("tokenizers/" + name + "/" + file);
    if (!path.empty()) return parent_path(path);
  }
  return {};
}

void compare_ids(Case& c, const Ids& got, const TreeJson& want, const std::string& index) {
  c.equal(fmt::format("{}", fmt::join(got, " ")),
          fmt::format("{}", fmt::join(want.get<Ids>(), " ")), "ids of string " + index);
}

void run_ids(Case& c, const Subject& s, const TreeJson& want) {
  for (const auto& [index, ids] : want.items()) compare_ids(c, s.encode(index, false), ids, index);
}

void run_with_special(Case& c, const Subject& s, const TreeJson& want) {
  for (const auto& [index, ids] : want.items()) compare_ids(c, s.encode(index, true), ids, index);
}

// "i,j": the two texts in the file's template for pairs.
void run_pair(Case& c, const Subject& s, const TreeJson& want) {
  for (const auto& [key, pair] : want.items()) {
    const size_t comma = key.find(',');
    const text::Encoding got = s.tokenizer->encode_pair(
        s.string(key.substr(0, comma)), s.string(key.substr(comma + 1)), {.parse_special = true});
    compare_ids(c, got.ids, pair.at("ids"), key);
    c.check(got.types == pair.at("type_ids").get<Ids>(), "type ids of strings " + key);
  }
}

// Lists only the texts that do not come back as they were; "<index>.skip": without special tokens.
void run_decode(Case& c, const Subject& s, const TreeJson& differs) {
  for (const auto& [index, ids] : s.want.at("ids").items()) {
    const Ids numbers = ids.get<Ids>();
    const std::string whole = differs.value(index, s.string(index));
    c.equal(s.tokenizer->decode(numbers, {}), whole, "text of string " + index);
    c.equal(s.tokenizer->decode(numbers, {.skip_special = true}),
            differs.value(index + ".skip", whole),
            "text without special tokens of string " + index);
  }
}

void run_random_ids(Case& c, const Subject& s, const TreeJson& want) {
  for (const TreeJson& item : want) {
    const Ids ids = item.at("ids").get<Ids>();
    c.equal(s.tokenizer->decode(ids, {}), item.at("text").get<std::string>(), "text of random ids");
    c.equal(s.tokenizer->decode(ids, {.skip_special = true}),
            item.at("text_skip").get<std::string>(), "text of random ids without special tokens");
  }
}

void run_prefix_decode(Case& c, const Subject& s, const TreeJson& want) {
  for (const auto& [index, texts] : want.items()) {
    const Ids ids = s.want.at("ids").at(index).get<Ids>();
    for (size_t i = 0; i < texts.size(); ++i) {
      c.equal(s.tokenizer->decode(std::span(ids).first(i + 1), {}), texts[i].get<std::string>(),
              fmt::format("string {} after {} ids", index, i + 1));
    }
  }
}

// One chunk per id, null: nothing yet.
void run_stream(Case& c, const Subject& s, const TreeJson& want) {
  for (const auto& [index, stream] : want.items()) {
    const Ids ids = s.want.at("ids").at(index).get<Ids>();
    const TreeJson& chunks = stream.at("chunks");
    std::string shown;
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (chunks[i].is_string()) shown += chunks[i].get<std::string>();
      int64_t used = 0;
      c.equal(s.tokenizer->decode_stream(std::span(ids).first(i + 1), {}, used), shown,
              fmt::format("stream of string {} after {} ids", index, i + 1));
    }
  }
}

using Check = void (*)(Case&, const Subject&, const TreeJson&);

Check find_check(const std::string& kind) {
  static const std::map<std::string, Check> checks = {
      {"ids", run_ids},
      {"with_special_tokens", run_with_special},
      {"pair", run_pair},
      {"decode_differs", run_decode},
      {"random_ids", run_random_ids},
      {"prefix_decode", run_prefix_decode},
      {"stream", run_stream},
  };
  const auto found = checks.find(kind);
  return found == checks.end() ? nullptr : found->second;
}

void run_tokenizer(Topic& topic, const Json& entry, const std::vector<std::string>& strings) {
  const std::string name = entry.at("name").get<std::string>();
  Subject subject;
  subject.strings = strings;
  subject.want = read_tree(join_path(topic.folder(), entry.at("file").get<std::string>()));
  const std::string path = tokenizer_path(topic, entry, name);
  const bool stored = entry.contains("tokenizer_file") && entry.at("tokenizer_file").is_string();
  const auto need = [&](Case& c) {
    if (!stored) c.needs_asset("tokenizers/" + name, !path.empty());
  };

  // Every kind is its own case, and none runs with a tokenizer that did not load.
  bool loaded = false;
  topic.run(name + ".size", [&](Case& c) {
    need(c);
    subject.tokenizer = Tokenizer::load(path, Options(text::tokenizer_schema()));
    loaded = true;
    c.equal(subject.tokenizer->size(), entry.at("vocab_size_with_added").get<int64_t>(), "size");
  });
  if (!loaded && !path.empty()) return;
  for (const auto& [kind, want] : subject.want.items()) {
    // decode_differs lists exceptions: empty means that every text comes back.
    const Check check = find_check(kind);
    if (want.empty() && check != run_decode) continue;
    topic.run(name + "." + kind, [&, &kind = kind, &want = want](Case& c) {
      if (check == nullptr) c.skip("kind " + kind + " is not supported yet");
      need(c);
      check(c, subject, want);
    });
  }
}

} // namespace

void run_tokenizers(Topic& topic) {
  const TreeJson tree = read_tree(join_path(topic.folder(), "strings.json"));
  const auto strings = tree.get<std::vector<std::string>>();
  for (const Json& entry : topic.list("cases")) run_tokenizer(topic, entry, strings);
}

} // namespace dllm::parity
