// jax/data: collators, alignments of edits, the order of an epoch, intervals, words behind names,
// packing and truncation. Exact. Labels are -100 where `keep` is 1.

#include "../../../unit/text/tokenizer/byte_tokenizer.h"
#include "base/error.h"
#include "handlers.h"
#include "noise/rows/edit_alignment.h"
#include "runner.h"
#include "text/data/collate.h"
#include "text/data/loader.h"
#include "text/data/spec_words.h"
#include "train/trainer.h"

#include <nlohmann/json.hpp>

#include <map>
#include <regex>
#include <variant>

namespace dllm::parity {
namespace {

using text::Example;
using text::PaddedRows;
using text::PadSide;

// Of the topic, as its description has them: "Token ids: pad 0, bos 1, eos 2, mask 29."
struct TokenIds {
  int32_t pad, bos, eos, mask;
};

TokenIds token_ids(const Json& cases) {
  const auto text = cases.value("description", "");
  static const std::regex list(
      "Token ids: pad ([0-9]+), bos ([0-9]+), eos ([0-9]+), mask ([0-9]+)");
  std::smatch found;
  if (!std::regex_search(text, found, list))
    fail(Code::invalid_argument, "the description of the topic lists no token ids");
  return {std::stoi(found[1]), std::stoi(found[2]), std::stoi(found[3]), std::stoi(found[4])};
}

std::vector<uint8_t> keep_of(const Json& labels) {
  std::vector<uint8_t> keep;
  for (const Json& label : labels) keep.push_back(label.get<int32_t>() == -100);
  return keep;
}

std::vector<Example> examples_of(const Json& features) {
  std::vector<Example> rows;
  for (const Json& feature : features) {
    Example row;
    row.ids = feature.at("input_ids").get<std::vector<int32_t>>();
    row.keep = keep_of(feature.at("labels"));
    if (feature.contains("attention_mask"))
      row.seen = feature.at("attention_mask").get<std::vector<uint8_t>>();
    if (feature.contains("noisy_input_ids"))
      row.noisy = feature.at("noisy_input_ids").get<std::vector<int32_t>>();
    row.flag = feature.value("flag", false);
    rows.push_back(std::move(row));
  }
  return rows;
}

// Rows of a padded batch as one array of JSON, to compare as text.
template <class T> std::string rows_text(const std::vector<T>& values, int64_t width) {
  Json all = Json::array();
  for (size_t at = 0; at < values.size(); at += static_cast<size_t>(width)) {
    Json row = Json::array();
    for (size_t i = 0; i < static_cast<size_t>(width); ++i)
      row.push_back(static_cast<int64_t>(values[at + i]));
    all.push_back(row);
  }
  return all.dump();
}

std::string labels_text(const PaddedRows& rows) {
  std::vector<int32_t> labels = rows.ids;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (rows.keep[i] != 0) labels[i] = -100;
  }
  return rows_text(labels, rows.width);
}

void check_padded(Case& c, const PaddedRows& got, const Json& want) {
  c.equal(rows_text(got.ids, got.width), want.at("input_ids").dump(), "input_ids");
  c.equal(labels_text(got), want.at("labels").dump(), "labels");
  if (want.contains("attention_mask"))
    c.equal(rows_text(got.seen, got.width), want.at("attention_mask").dump(), "attention_mask");
  if (!want.contains("noisy_input_ids")) {
    c.check(got.noisy.empty(), "noisy ids without any in the rows");
    return;
  }
  c.equal(rows_text(got.noisy, got.width), want.at("noisy_input_ids").dump(), "noisy_input_ids");
  c.equal(Json(got.flags).dump(), want.at("flag").dump(), "flag");
}

void check_edit_collator(Case& c, const Json& entry) {
  const auto start = text::EditStart::parse(entry.at("x0_sampler").get<std::string>());
  const TokenIds tokens = token_ids(c.topic().cases());
  Json from = Json::array(), to = Json::array();
  for (const Json& feature : entry.at("features")) {
    const auto ids = feature.at("input_ids").get<std::vector<int32_t>>();
    const auto pair = text::make_edit_pair(ids, feature.value("prompt_len", int64_t{-1}),
                                           tokens.bos, tokens.mask, start);
    from.push_back(pair.from);
    to.push_back(pair.to);
  }
  c.equal(from.dump(), entry.at("output").at("x0_ids").dump(), "x0_ids");
  c.equal(to.dump(), entry.at("output").at("x1_ids").dump(), "x1_ids");
}

void check_collator(Case& c, const Json& entry) {
  const auto kind = entry.at("kind").get<std::string>();
  if (kind == "editflow_collator") return check_edit_collator(c, entry);
  const TokenIds tokens = token_ids(c.topic().cases());
  const PadSide side = entry.at("padding_side") == "left" ? PadSide::left : PadSide::right;
  std::vector<Example> rows = examples_of(entry.at("features"));
  if (kind.starts_with("append_eos_block"))
    text::extend_with_eos(rows, entry.at("block_size").get<int64_t>(), tokens.eos);
  else if (kind == "dream_sft_perbatch")
    text::cut_responses(rows, entry.at("kept_length").get<int64_t>());
  else if (kind == "dream_sft_resp_cutoff")
    text::cut_columns(rows, entry.at("cutoff_columns").get<int64_t>(), side);
  else if (kind != "base_seq2seq" && kind != "no_attention_mask" &&
           !kind.starts_with("dmax_collator"))
    c.skip("collator " + kind + " is not known");
  if (!entry.at("output").contains("error"))
    return check_padded(c, text::pad_rows(rows, 0, tokens.pad, side), entry.at("output"));
  try {
    text::pad_rows(rows, 0, tokens.pad, side);
    c.check(false, "accepted, the reference refuses it");
  } catch (const Error& error) {
    c.check(error.code() == Code::invalid_argument, error.text());
  }
}

// A dataset of rows of ids: any tokenizer of more ids will do.
std::shared_ptr<text::Dataset> empty_dataset() {
  Options options(text::dataset_schema());
  options.set_json({{"append_eos", false}});
  return std::make_shared<text::Dataset>(text::make_byte_tokenizer(), options);
}

std::shared_ptr<text::Dataset> dataset_of(const Json& rows) {
  auto data = empty_dataset();
  for (const Json& ids : rows) {
    if (!ids.empty()) data->add(Json{{"ids", ids}}.dump());
  }
  return data;
}

Options loader_options(const Json& values) {
  Options options(text::loader_schema());
  options.set_json(values);
  return options;
}

// The rows of the loader without padding.
Json loaded_rows(text::Loader& loader) {
  Json rows = Json::array();
  while (const auto batch = loader.try_next()) {
    const auto ids = batch->at("ids").as<int32_t>();
    const auto segments = batch->at("segments").as<int32_t>();
    Json row = Json::array();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (segments[i] != 0) row.push_back(ids[i]);
    }
    rows.push_back(row);
  }
  return rows;
}

void check_packing(Case& c, const Json& entry) {
  Json rows = entry.at("token_ids");
  const auto eos = entry.at("eos").get<int32_t>();
  for (Json& row : rows) {
    if (entry.at("insert_eos").get<bool>() && (row.empty() || row.back() != eos))
      row.push_back(eos);
  }
  Json got = Json::array();
  try {
    text::Loader loader(dataset_of(rows), loader_options({{"batch", 1},
                                                          {"length", entry.at("seq_length")},
                                                          {"drop_tail", entry.at("drop_tail")},
                                                          {"shuffle", false}}));
    got = loaded_rows(loader);
  } catch (const Error& error) { // a loader without any sequence is an error
    c.check(error.code() == Code::failed_precondition, error.text());
  }
  c.equal(got.dump(), entry.at("chunks").dump(), "chunks");
  c.equal(got.dump(), entry.at("labels").dump(), "labels");
}

void check_clip(Case& c, const Json& entry) {
  const Json& row = entry.at("row");
  auto data = empty_dataset();
  data->add(Json{{"ids", row.at("input_ids")}, {"keep", keep_of(row.at("labels"))}}.dump());
  text::Loader loader(data, loader_options({{"batch", 1},
                                            {"length", entry.at("max_length")},
                                            {"pack", false},
                                            {"truncate", entry.at("truncation")}}));
  const Batch batch = loader.next();
  Json ids = Json::array(), labels = Json::array();
  for (size_t i = 0; i < batch.at("ids").as<int32_t>().size(); ++i) {
    if (batch.at("segments").as<int32_t>()[i] == 0) continue;
    const int32_t id = batch.at("ids").as<int32_t>()[i];
    ids.push_back(id);
    labels.push_back(batch.at("keep").as<uint8_t>()[i] != 0 ? -100 : id);
  }
  c.equal(ids.dump(), entry.at("result").at("input_ids").dump(), "input_ids");
  c.equal(labels.dump(), entry.at("result").at("labels").dump(), "labels");
}

// Rows of one token, their number: batches of the loader with order python.
void check_order(Case& c, const Json& entry) {
  Json rows = Json::array();
  for (int64_t i = 0; i < entry.at("n").get<int64_t>(); ++i) rows.push_back(Json::array({i}));
  text::Loader loader(dataset_of(rows), loader_options({{"batch", entry.at("batch_size")},
                                                        {"length", 1},
                                                        {"pack", false},
                                                        {"order", "python"},
                                                        {"seed", entry.at("seed")}}));
  c.equal(loaded_rows(loader).dump(), entry.at("batches").dump(), "batches");
}

std::vector<int32_t> row_of(const Json& entry, const char* key) {
  return entry.at(key).get<std::vector<int32_t>>();
}

void check_alignment_costs(Case& c, const Json& entry) {
  const noise::EditCosts costs{entry.value("sub_cost", int64_t{1}),
                               entry.value("gap_cost", int64_t{1})};
  const auto made = noise::align(row_of(entry, "x0"), row_of(entry, "x1"), costs);
  c.equal(Json(made.from).dump(), entry.at("z0").dump(), "z0");
  c.equal(Json(made.to).dump(), entry.at("z1").dump(), "z1");
}

// ["SUB", position, token], as dllm-jax writes an edit; a deletion has no token.
std::string edits_text(const std::vector<noise::Edit>& edits) {
  using Kind = noise::Edit::Kind;
  Json all = Json::array();
  for (const noise::Edit& edit : edits) {
    const char* name = edit.kind == Kind::substitute ? "SUB"
                       : edit.kind == Kind::remove   ? "DEL"
                                                     : "INS";
    all.push_back({name, edit.position, edit.kind == Kind::remove ? Json() : Json(edit.token)});
  }
  return all.dump();
}

void check_alignments(Case& c, const Json& entry) {
  check_alignment_costs(c, entry);
  const auto to = row_of(entry, "z1");
  for (const std::string now : {"z0", "zt"}) {
    const auto edits = noise::edits_between(row_of(entry, now.c_str()), to);
    c.equal(edits_text(edits), entry.at("edits_from_" + now).dump(), "edits from " + now);
  }
}

void check_interval(Case& c, const Json& entry) {
  const Json& value = entry.at("value"); // null: off
  c.equal(train::interval_steps("interval", value.is_null() ? 0 : value.get<double>(),
                                entry.at("total").get<int64_t>()),
          entry.at("result").get<int64_t>(), "steps");
}

void check_spec(Case& c, const Json& entry) {
  const auto spec = entry.at("spec").get<std::string>();
  if (entry.contains("error")) {
    try {
      text::parse_spec_words(spec);
      c.check(false, "accepted, the reference refuses it");
    } catch (const Error& error) {
      c.check(error.code() == Code::invalid_argument, error.text());
    }
    return;
  }
  const text::SpecWords got = text::parse_spec_words(spec);
  std::map<std::string, Json> want, values;
  for (const auto& [key, value] : entry.at("options").items()) want[key] = value;
  for (const auto& [key, value] : got.values)
    std::visit([&, name = key](const auto& one) { values[name] = one; }, value);
  c.equal(got.name, entry.at("name").is_null() ? "" : entry.at("name").get<std::string>(), "name");
  c.equal(Json(values).dump(), Json(want).dump(), "options");
}

} // namespace

void run_data(Topic& topic) {
  const auto each = [&](const char* list, void (*check)(Case&, const Json&)) {
    int64_t number = 0;
    for (const Json& entry : topic.list(list)) {
      const std::string name = list + ("_" + std::to_string(number++));
      topic.run(name, [&](Case& c) { check(c, entry); });
    }
  };
  each("collators", check_collator);
  each("alignments", check_alignments);
  each("alignment_costs", check_alignment_costs);
  each("epoch_order", check_order);
  each("parse_interval", check_interval);
  each("parse_spec", check_spec);
  each("tokenize_and_group", check_packing);
  each("clip_row", check_clip);
}

} // namespace dllm::parity
