// jax/spd: soft parallel decoding by three implementations on one prompt, each with a line of its
// own (<case>.fast, .kv, .legacy, .bucketed). Arrays of a case's file: prompt i32(B, P), gumbel
// f32(steps, B, block, V), <impl>.{full_tokens, generated_tokens, nfe}, and of fast and kv
// <impl>.trace.* (S denoising steps) and <impl>.block.* (one entry a block).
//
// The reference steps the rows of a batch together; ours go on alone. A row that is done with its
// block before the others stands still there, so every step of the reference has its step here.

#include "base/error.h"
#include "decode/decoder/decoder.h"
#include "handlers.h"
#include "model/model.h"
#include "runner.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace dllm::parity {
namespace {

using Ids = std::vector<int32_t>;

// The noise of the reference: one draw for every step of a block, the same in all blocks.
class RecordedNoise final : public decode::RandomSource {
public:
  explicit RecordedNoise(Tensor noise) : noise_(std::move(noise)) {}
  float uniform(const decode::Request&, int64_t, int) const override { return 0.5f; }
  bool has_noise() const override { return true; }
  void noise(const decode::Request& slot, int64_t position,
             std::span<float> per_token) const override {
    const Shape& shape = noise_.shape(); // (steps, rows, block, vocab)
    const int64_t place = position - slot.block_begin();
    const int64_t line = (slot.step_in_block * shape[1] + slot.number) * shape[2] + place;
    const auto all = noise_.as<float>();
    std::copy_n(all.begin() + line * shape[3], shape[3], per_token.begin());
  }

private:
  Tensor noise_;
};

// One step of one row: what the model said of the block's open and revised positions, and the
// canvas after it.
struct Step {
  std::map<int64_t, decode::Prediction> said; // by position
  Ids ids;
  std::vector<decode::State> states;
};

struct Run {
  int64_t rows = 0, block_length = 0, blocks = 0, first_block = 0, steps = 0;
  int64_t nfe = 0; // of the first row
  // (row, block) -> its steps
  std::map<std::pair<int64_t, int64_t>, std::vector<Step>> history;

  const std::vector<Step>& of(int64_t row, int64_t block) const {
    static const std::vector<Step> none;
    const auto found = history.find({row, block});
    return found == history.end() ? none : found->second;
  }
};

// A case in our words.
struct Setting {
  Json parameters;
  int64_t prompt, generated, block_length;

  explicit Setting(const Json& entry)
      : parameters(entry.at("parameters")), prompt(parameters.at("prompt_length").get<int64_t>()),
        generated(parameters.at("gen_length").get<int64_t>()),
        block_length(parameters.at("block_length").get<int64_t>()) {}

  // The reference decodes whole blocks, also beyond what was asked for.
  int64_t width() const {
    return (prompt + generated + block_length - 1) / block_length * block_length;
  }
  int64_t rows() const { return parameters.at("B").get<int64_t>(); }
  int32_t eos() const {
    const Json& id = parameters.at("eos_token_id");
    return id.is_null() ? -1 : id.get<int32_t>();
  }
  // Without a seed the reference takes the likeliest token at any temperature.
  double temperature() const {
    return parameters.at("seed").is_null() ? 0 : parameters.at("temperature").get<double>();
  }
  int64_t steps() const {
    const auto least = std::max<int64_t>(1, parameters.at("minimal_topk").get<int64_t>());
    return std::min(parameters.at("steps").get<int64_t>(), std::max<int64_t>(1, generated / least));
  }
};

void refuse_unknown(Case& c, const Json& entry) {
  static const std::vector<std::string> known = {"gen_length",
                                                 "block_length",
                                                 "steps",
                                                 "minimal_topk",
                                                 "threshold",
                                                 "B",
                                                 "confidence_stop",
                                                 "eos_token_id",
                                                 "include_eos",
                                                 "suppress_mask_token",
                                                 "top_k",
                                                 "temperature",
                                                 "seed",
                                                 "mask_token_id",
                                                 "prompt_length",
                                                 "bucket_length",
                                                 "embedding_dtype"};
  for (const auto& [key, value] : entry.at("parameters").items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      c.skip(fmt::format("parameter {} = {} is not supported yet", key, value.dump()));
  }
}

Options decoder_options(const Setting& setting, const std::string& implementation) {
  const Json& p = setting.parameters;
  Json values = {{"policy", "spd"},
                 {"block_length", setting.block_length},
                 {"steps", setting.steps()},
                 {"minimal_topk", std::max<int64_t>(1, p.at("minimal_topk").get<int64_t>())},
                 {"threshold", p.at("threshold")},
                 {"confidence_stop", p.at("confidence_stop")},
                 {"mix_top_k", p.at("top_k")},
                 {"suppress_mask", p.at("suppress_mask_token")},
                 {"eos", setting.eos()},
                 {"temperature", setting.temperature()},
                 {"gen_length", setting.width() - setting.prompt},
                 {"implementation", implementation},
                 {"embeddings", p.value("embedding_dtype", "") == "bfloat16" ? "bf16" : "f32"},
                 {"compat", setting.rows() > 1 ? "dllm-jax-batch" : "dllm-jax"}};
  Options options(decode::decoder_schema("spd"));
  options.set_json(values);
  return options;
}

void take_step(decode::Decoder& decoder, int64_t rows, Run& run) {
  decoder.predict();
  std::map<int64_t, std::pair<int64_t, Step>> made; // row -> its block and step
  for (int64_t row = 0; row < rows; ++row) {
    if (!decoder.request(row).active()) continue;
    const Batch said = decoder.statistics(row);
    const int64_t count = said.at("positions").count();
    const int64_t top = count == 0 ? 0 : said.at("top_ids").shape()[1];
    auto& [block, step] = made[row];
    block = decoder.request(row).block;
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      decode::Prediction p;
      p.position = said.at("positions").as<int32_t>()[at];
      p.token = said.at("token").as<int32_t>()[at];
      p.probability = said.at("probability").as<float>()[at];
      p.argmax = said.at("argmax").as<int32_t>()[at];
      p.max_probability = said.at("max_probability").as<float>()[at];
      const auto ids = said.at("top_ids").as<int32_t>().begin() + i * top;
      const auto probs = said.at("top_probs").as<float>().begin() + i * top;
      p.top_ids.assign(ids, ids + top);
      p.top_probs.assign(probs, probs + top);
      step.said[p.position] = std::move(p);
    }
  }
  decoder.step();
  for (auto& [row, entry] : made) {
    entry.second.ids = decoder.request(row).ids;
    entry.second.states = decoder.request(row).states;
    run.history[{row, entry.first}].push_back(std::move(entry.second));
  }
}

Run decode(Case& c, const Json& entry, const Setting& setting, Options options) {
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  model->set_mask_token(setting.parameters.at("mask_token_id").get<int64_t>());
  decode::Decoder decoder(model, options);
  if (setting.temperature() > 0)
    decoder.set_random_source(std::make_shared<RecordedNoise>(c.array("gumbel")));
  const Tensor& prompt = c.array("prompt");
  for (int64_t row = 0; row < setting.rows(); ++row)
    decoder.add(prompt.row(row).as<int32_t>(), {}, Options(decode::request_schema()));
  Run run;
  run.rows = setting.rows();
  run.block_length = setting.block_length;
  run.first_block = setting.prompt / setting.block_length;
  run.blocks = setting.width() / setting.block_length;
  run.steps = std::min(setting.steps(), setting.block_length);
  while (decoder.metric(-1, "done") == 0) take_step(decoder, run.rows, run);
  run.nfe = static_cast<int64_t>(decoder.metric(0, "nfe"));
  return run;
}

// Most steps of a row in a block: so many the reference takes.
int64_t joint_steps(const Run& run, int64_t block) {
  size_t most = 0;
  for (int64_t row = 0; row < run.rows; ++row) most = std::max(most, run.of(row, block).size());
  return static_cast<int64_t>(most);
}

// The canvas of a row after a block.
const Ids& after_block(const Run& run, int64_t row, int64_t block) {
  return run.of(row, block).back().ids;
}

// Behind this block no block was decoded: the first one where all rows hold an EOS, or the last.
int64_t last_block(const Run& run, int32_t eos) {
  for (int64_t block = run.first_block; block + 1 < run.blocks; ++block) {
    bool all = eos >= 0;
    for (int64_t row = 0; all && row < run.rows; ++row) {
      if (run.of(row, block).empty()) return block - 1;
      const auto begin = after_block(run, row, block).begin() + block * run.block_length;
      all = std::find(begin, begin + run.block_length, eos) != begin + run.block_length;
    }
    if (all) return block;
  }
  return run.blocks - 1;
}

std::string text_of_span(std::span<const int32_t> ids) {
  return fmt::format("{}", fmt::join(ids, " "));
}

// (batch, width) -> one row.
std::span<const int32_t> line(const Tensor& array, int64_t row) {
  const int64_t width = array.shape()[array.shape().rank() - 1];
  return array.as<int32_t>().subspan(static_cast<size_t>(row * width), static_cast<size_t>(width));
}

// Elements of (S, B, block) arrays that belong to one step of one row.
class Place {
public:
  Place(const Setting& setting, int64_t s, int64_t row)
      : first_((s * setting.rows() + row) * setting.block_length) {}
  size_t at(int64_t in_block) const { return static_cast<size_t>(first_ + in_block); }

private:
  int64_t first_;
};

// What the model said, and what the next step is fed. Tolerance: trace_atol of the case.
void compare_said(Case& c, const std::string& impl, const Setting& setting, double tolerance,
                  const Step& step, int64_t block, int64_t s, int64_t row) {
  const auto real = [&](const std::string& name) { return c.array(impl + ".trace." + name); };
  const Place place(setting, s, row);
  const std::string where = fmt::format("step {} row {}", s, row);
  const bool narrow = c.has(impl + ".trace.soft");
  const Tensor x0 = real("x0"), q = real("x0_prob"), top = real("argmax"), conf = real("conf"),
               soft = real(narrow ? "soft" : "soft_probs");
  const int64_t width = narrow ? 1 : soft.shape()[3];
  for (int64_t i = 0; i < setting.block_length; ++i) {
    const int64_t position = block * setting.block_length + i;
    const auto found = step.said.find(position);
    std::vector<float> fed(static_cast<size_t>(width), 0.0f);
    const bool decided = found != step.said.end() &&
                         step.states[static_cast<size_t>(position)] != decode::State::masked;
    if (decided && narrow) fed[0] = found->second.max_probability;
    if (decided && !narrow) fed = found->second.top_probs;
    for (int64_t k = 0; k < width; ++k) {
      const auto at = place.at(i) * static_cast<size_t>(width) + static_cast<size_t>(k);
      c.close({tolerance, 0}, static_cast<double>(fed[static_cast<size_t>(k)]),
              static_cast<double>(soft.as<float>()[at]), "soft " + where);
      if (decided && !narrow)
        c.equal(found->second.top_ids[static_cast<size_t>(k)], real("soft_ids").as<int32_t>()[at],
                "soft_ids " + where);
    }
    if (found == step.said.end()) continue;
    const decode::Prediction& p = found->second;
    c.equal(p.argmax, top.as<int32_t>()[place.at(i)], "argmax " + where);
    c.equal(p.token, x0.as<int32_t>()[place.at(i)], "x0 " + where);
    c.close({tolerance, 0}, static_cast<double>(p.max_probability),
            static_cast<double>(conf.as<float>()[place.at(i)]), "conf " + where);
    c.close({tolerance, 0}, static_cast<double>(p.probability),
            static_cast<double>(q.as<float>()[place.at(i)]), "x0_prob " + where);
  }
}

void compare_trace(Case& c, const std::string& impl, const Setting& setting, double tolerance,
                   const Run& run) {
  const Tensor blocks = c.array(impl + ".trace.block"), steps = c.array(impl + ".trace.step"),
               tokens = c.array(impl + ".trace.tokens"), done = c.array(impl + ".trace.done");
  for (int64_t s = 0; s < blocks.count(); ++s) {
    const int64_t block = blocks.as<int32_t>()[static_cast<size_t>(s)];
    const int64_t step = steps.as<int32_t>()[static_cast<size_t>(s)];
    for (int64_t row = 0; row < run.rows; ++row) {
      const std::vector<Step>& own = run.of(row, block);
      const std::string where = fmt::format("step {} row {}", s, row);
      c.check(!own.empty(), "no step in the block of " + where);
      if (own.empty()) return;
      const auto count = static_cast<int64_t>(own.size());
      const Step& now = own[static_cast<size_t>(std::min(step, count - 1))];
      // What an EOS fills behind the block is in block.tokens.
      const auto end = static_cast<size_t>((block + 1) * setting.block_length);
      c.equal(text_of_span(std::span(now.ids).first(end)),
              text_of_span(line(tokens, s * run.rows + row).first(end)), "tokens of " + where);
      const bool is_done = done.as<int32_t>()[static_cast<size_t>(s * run.rows + row)] != 0;
      c.equal(is_done || step + 1 >= run.steps, step + 1 >= count, "done at " + where);
      if (step < count) compare_said(c, impl, setting, tolerance, now, block, s, row);
    }
  }
}

void compare_blocks(Case& c, const std::string& impl, const Run& run, int64_t last, bool hard) {
  const Tensor ids = c.array(impl + ".block.id"), tokens = c.array(impl + ".block.tokens"),
               counts = c.array(impl + ".block.nfe");
  c.equal(last - run.first_block + 1, ids.count(), "blocks");
  int64_t nfe = 0;
  for (int64_t i = 0; i < ids.count(); ++i) {
    const int64_t block = ids.as<int32_t>()[static_cast<size_t>(i)];
    c.equal(block, run.first_block + i, "block.id");
    nfe += joint_steps(run, block) + (hard ? 1 : 0);
    c.equal(nfe, counts.as<int32_t>()[static_cast<size_t>(i)], "block.nfe");
    for (int64_t row = 0; row < run.rows; ++row) {
      if (run.of(row, block).empty()) return;
      c.equal(text_of_span(after_block(run, row, block)),
              text_of_span(line(tokens, i * run.rows + row)),
              fmt::format("tokens of row {} after block {}", row, block));
    }
  }
}

// Batches are given whole; one row is cut at its first EOS.
Ids generated_of(const Setting& setting, const Ids& canvas) {
  Ids ids(canvas.begin() + setting.prompt, canvas.begin() + setting.prompt + setting.generated);
  const auto eos = std::find(ids.begin(), ids.end(), setting.eos());
  if (setting.rows() > 1 || eos == ids.end()) return ids;
  ids.erase(eos + (setting.parameters.at("include_eos").get<bool>() ? 1 : 0), ids.end());
  return ids;
}

void compare_ends(Case& c, const std::string& impl, const Setting& setting, const Run& run,
                  int64_t last, bool whole) {
  const Tensor full = c.array(impl + ".full_tokens");
  const Tensor generated = c.array(impl + ".generated_tokens");
  for (int64_t row = 0; row < run.rows; ++row) {
    const Ids& canvas = after_block(run, row, last);
    const auto width = static_cast<size_t>(setting.prompt + setting.generated);
    if (whole)
      c.equal(text_of_span(std::span(canvas).first(width)), text_of_span(line(full, row)),
              "full_tokens");
    c.equal(text_of_span(generated_of(setting, canvas)), text_of_span(line(generated, row)),
            "generated_tokens");
  }
}

int64_t nfe_of(Case& c, const std::string& impl) {
  return c.array(impl + ".nfe").as<int32_t>()[0];
}

void run_traced(Case& c, const Json& entry, const std::string& impl, bool hard) {
  const Setting setting(entry);
  const Run run = decode(c, entry, setting, decoder_options(setting, hard ? "kv_fast" : "fast"));
  const int64_t last = last_block(run, setting.eos());
  const double tolerance = entry.value("trace_atol", 2e-4);
  compare_trace(c, impl, setting, tolerance, run);
  compare_blocks(c, impl, run, last, hard);
  compare_ends(c, impl, setting, run, last, true);
  int64_t nfe = 0;
  for (int64_t block = run.first_block; block <= last; ++block)
    nfe += joint_steps(run, block) + (hard ? 1 : 0);
  c.equal(nfe, nfe_of(c, impl), "nfe of the batch");
  if (setting.rows() == 1) c.equal(run.nfe, nfe_of(c, impl), "nfe");
}

// Whether every row holds an EOS behind the prompt once this block is done.
bool all_ended(const Setting& setting, const Run& run, int64_t block) {
  bool all = setting.eos() >= 0;
  const auto end = (block + 1) * setting.block_length;
  for (int64_t row = 0; all && row < run.rows; ++row) {
    const Ids& ids = after_block(run, row, block);
    all = std::find(ids.begin() + setting.prompt, ids.begin() + end, setting.eos()) !=
          ids.begin() + end;
  }
  return all;
}

// What a batch of the loop on the host shares with rows that are independent: the blocks in which
// all rows stop at the same step, and of the first other block the rows that go on longest. From
// there on a row that is done is revised until the others are, and its tokens depend on its
// neighbours (tests/parity/README.md).
void compare_until_rows_wait(Case& c, const Setting& setting, const Run& run) {
  const Tensor full = c.array("legacy.full_tokens");
  bool waits = false;
  for (int64_t block = run.first_block; block < run.blocks && !waits; ++block) {
    const auto end =
        static_cast<size_t>(std::min((block + 1) * setting.block_length, full.shape()[1]));
    for (int64_t row = 0; row < run.rows; ++row) {
      const bool longest = std::ssize(run.of(row, block)) == joint_steps(run, block);
      waits = waits || !longest;
      if (!longest) continue;
      c.equal(text_of_span(std::span(after_block(run, row, block)).first(end)),
              text_of_span(line(full, row).first(end)),
              fmt::format("row {} after block {}", row, block));
    }
    if (all_ended(setting, run, block)) break;
  }
}

// The loop on the host: an EOS in the prompt does not count, nothing is filled, and the rows of a
// batch end a block together, which ours do not.
void run_legacy(Case& c, const Json& entry) {
  const Setting setting(entry);
  const bool alone = setting.rows() == 1;
  Options options = decoder_options(setting, "reference");
  options.set_json(Json{{"eos_fill", false}, {"compat", "dllm-jax"}});
  if (!alone) options.set_i64("eos", -1); // a row goes on behind its EOS until all rows have one
  const Run run = decode(c, entry, setting, options);
  if (!alone && (setting.eos() >= 0 || !entry.value("fast_equals_legacy_generated", false)))
    return compare_until_rows_wait(c, setting, run);
  int64_t last = run.blocks - 1;
  while (alone && run.of(0, last).empty()) --last;
  compare_ends(c, "legacy", setting, run, last, true);
  if (alone) c.equal(run.nfe, nfe_of(c, "legacy"), "nfe");
}

// Windows that grow by groups of blocks. The reference looks for an EOS between groups alone and
// fills nothing, so after one only what comes before it is comparable.
void run_bucketed(Case& c, const Json& entry) {
  const Setting setting(entry);
  const bool whole = setting.eos() < 0;
  if (!whole && setting.rows() > 1)
    c.skip("groups of a batch end when all rows hold an EOS; rows are independent here");
  Options options = decoder_options(setting, "fast");
  options.set_json(
      Json{{"bucket_length", setting.parameters.at("bucket_length")}, {"compat", "dllm-jax"}});
  const Run run = decode(c, entry, setting, options);
  compare_ends(c, "bucketed", setting, run, last_block(run, setting.eos()), whole);
  if (whole && setting.rows() == 1) c.equal(run.nfe, nfe_of(c, "bucketed"), "nfe");
}

void run_one(Topic& topic, const Json& entry, const std::string& impl,
             const std::function<void(Case&)>& body) {
  Json named = entry;
  named["name"] = entry.at("name").get<std::string>() + "." + impl;
  topic.run(named, [&](Case& c) {
    c.set_prefix("");
    refuse_unknown(c, entry);
    body(c);
  });
}

} // namespace

void run_spd(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    run_one(topic, entry, "fast", [&](Case& c) { run_traced(c, entry, "fast", false); });
    run_one(topic, entry, "kv", [&](Case& c) { run_traced(c, entry, "kv", true); });
    run_one(topic, entry, "legacy", [&](Case& c) { run_legacy(c, entry); });
    if (entry.at("parameters").contains("bucket_length"))
      run_one(topic, entry, "bucketed", [&](Case& c) { run_bucketed(c, entry); });
  }
}

} // namespace dllm::parity
