#include "text/tokenizer/post_processor.h"

#include "base/error.h"
#include "base/named_table.h"

#include <algorithm>

namespace dllm::text {

namespace {

// ["[CLS]", 101] of BertProcessing and RobertaProcessing.
int32_t read_token_pair(const TreeJson& json, const char* key, const std::string& where) {
  const TreeJson& pair = array_member(json, key, where);
  if (pair.size() != 2 || !pair[1].is_number_integer() || pair[1] < 0 || pair[1] > INT32_MAX) {
    fail(Code::data_loss, "{}: \"{}\" must be [token, id]", where, key);
  }
  return pair[1].get<int32_t>();
}

} // namespace

PostProcessor::PostProcessor(const TreeJson& json, const std::string& where, const Lookup& lookup) {
  read(json, where, lookup);
}

void PostProcessor::read(const TreeJson& json, const std::string& where, const Lookup& lookup) {
  if (json.is_null()) return;
  using Own = PostProcessor;
  struct Type {
    const char* name;
    void (*read)(Own&, const TreeJson& json, const std::string& where, const Lookup& lookup);
  };
  static constexpr Type kTypes[] = {
      {"ByteLevel", // trims offsets only
       [](Own&, const TreeJson&, const std::string&, const Lookup&) {}},
      {"Sequence", [](Own& own, const TreeJson& sequence, const std::string& place,
                      const Lookup& ids) { own.read_sequence(sequence, place, ids); }},
      {"TemplateProcessing", [](Own& own, const TreeJson& fixed, const std::string& place,
                                const Lookup& ids) { own.read_template(fixed, place, ids); }},
      {"BertProcessing", [](Own& own, const TreeJson& pair, const std::string& place,
                            const Lookup&) { own.read_around(pair, place, false); }},
      {"RobertaProcessing", [](Own& own, const TreeJson& pair, const std::string& place,
                               const Lookup&) { own.read_around(pair, place, true); }},
  };
  need_named(kTypes, type_of(json, where), &Type::name,
             {"post-processor", "in " + where, "", Code::unimplemented})
      .read(*this, json, where, lookup);
}

void PostProcessor::read_sequence(const TreeJson& json, const std::string& where,
                                  const Lookup& lookup) {
  int64_t index = 0;
  for (const TreeJson& part : array_member(json, "processors", where))
    read(part, where + fmt::format(".processors[{}]", index++), lookup);
}

void PostProcessor::read_template(const TreeJson& json, const std::string& where,
                                  const Lookup& lookup) {
  const TreeJson* tokens = find_member(json, "special_tokens");
  const auto ids_of = [&](const std::string& name) {
    std::vector<int32_t> ids;
    const TreeJson* token = tokens == nullptr ? nullptr : find_member(*tokens, name.c_str());
    if (token != nullptr) {
      for (const TreeJson& id : array_member(*token, "ids", where)) {
        if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
          fail(Code::data_loss, "{}: an id of {} is not a token number", where, name);
        }
        ids.push_back(id.get<int32_t>());
      }
      return ids;
    }
    ids.push_back(lookup(name));
    if (ids[0] < 0)
      fail(Code::data_loss, "{}: the template uses {}, which is not a token", where, name);
    return ids;
  };
  const auto parts_of = [&](const char* key) {
    Template parts;
    for (const TreeJson& part : array_member(json, key, where)) {
      const TreeJson* special = find_member(part, "SpecialToken");
      const TreeJson* text = find_member(part, "Sequence");
      if (special == nullptr && text == nullptr) {
        fail(Code::data_loss, "{}: \"{}\" may hold SpecialToken and Sequence only", where, key);
      }
      const TreeJson& item = special != nullptr ? *special : *text;
      const auto type = static_cast<int32_t>(int_member(item, "type_id", where, 0));
      const std::string id = string_member(item, "id", where);
      if (special != nullptr) {
        parts.push_back({-1, ids_of(id), type});
      } else if (id == "A" || id == "B") {
        parts.push_back({id == "A" ? 0 : 1, {}, type});
      } else {
        fail(Code::data_loss, "{}: sequence {} is neither A nor B", where, id);
      }
    }
    return parts;
  };
  single_ = parts_of("single");
  if (find_member(json, "pair") != nullptr) pair_ = parts_of("pair");
}

void PostProcessor::read_around(const TreeJson& json, const std::string& where, bool roberta) {
  const int32_t cls = read_token_pair(json, "cls", where);
  const int32_t sep = read_token_pair(json, "sep", where);
  const int32_t second = roberta ? 0 : 1;
  single_ = {{-1, {cls}, 0}, {0, {}, 0}, {-1, {sep}, 0}};
  pair_ = single_;
  if (roberta) pair_.push_back({-1, {sep}, 0});
  pair_.push_back({1, {}, second});
  pair_.push_back({-1, {sep}, second});
}

namespace {

template <class Template>
Encoding fill(const Template& parts, const std::vector<int32_t>& first,
              const std::vector<int32_t>& second) {
  Encoding out;
  for (const auto& part : parts) {
    const std::vector<int32_t>& ids = part.text == 0 ? first : part.text == 1 ? second : part.ids;
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.types.insert(out.types.end(), ids.size(), part.type);
  }
  return out;
}

} // namespace

Encoding PostProcessor::single(std::vector<int32_t> ids) const {
  return fill(single_, ids, {});
}

std::vector<int32_t> PostProcessor::begun(std::vector<int32_t> ids) const {
  std::vector<int32_t> start;
  for (const Part& part : single_) {
    if (part.text >= 0) break;
    start.insert(start.end(), part.ids.begin(), part.ids.end());
  }
  const bool there =
      start.size() <= ids.size() && std::equal(start.begin(), start.end(), ids.begin());
  if (!there) ids.insert(ids.begin(), start.begin(), start.end());
  return ids;
}

Encoding PostProcessor::pair(std::vector<int32_t> first, std::vector<int32_t> second) const {
  return fill(pair_, first, second);
}

} // namespace dllm::text
