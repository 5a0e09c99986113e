// torch/samplers: canvases of a decoder after every step, at temperature 0. Arrays
// <case>.{trace i32(snapshots, batch, width), final, first_logits}. nano/samplers comes with its
// own random draws; a decoder draws its own.

#include "base/error.h"
#include "decode/decoder.h"
#include "handlers.h"
#include "model/model.h"
#include "reference_names.h"
#include "runner.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

using Ids = std::vector<int32_t>;

// A request of a case in our words.
struct Request {
  Ids canvas;
  std::vector<uint8_t> fixed; // empty: a prompt, open positions follow
  int64_t length = 0;         // with the open positions
};

bool is_off(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_number() && value.get<double>() == 0) || (value.is_array() && value.empty());
}

// Everything a case asks for that our decoder cannot do is a reason to skip, never to ignore.
void refuse_unknown(Case& c, const Json& entry) {
  const std::string sampler = entry.at("sampler").get<std::string>();
  if (sampler != "MDLMSampler") c.skip("sampler " + sampler + " is not supported yet");
  const std::string method = entry.at("method").get<std::string>();
  if (method != "sample" && method != "infill")
    c.skip("method " + method + " is not supported yet");
  for (const auto& [key, value] : entry.at("params").items()) {
    const bool known = key == "max_new_tokens" || key == "steps" || key == "block_size" ||
                       key == "suppress_tokens" || key == "right_shift_logits";
    const bool plain = key == "remasking" && value == "low_confidence";
    if (!known && !plain && !is_off(value))
      c.skip(fmt::format("parameter {} = {} is not supported yet", key, value.dump()));
  }
}

std::vector<Request> requests_of(const Json& entry) {
  const bool infill = entry.at("method") == "infill";
  const auto mask = entry.at("mask_id").get<int32_t>();
  const Json& params = entry.at("params");
  std::vector<Request> requests;
  for (const Json& input : entry.at("inputs")) {
    Request request;
    request.canvas = input.get<Ids>();
    request.length = static_cast<int64_t>(request.canvas.size());
    if (infill) {
      for (const int32_t id : request.canvas) request.fixed.push_back(id != mask ? 1 : 0);
    } else {
      // A shifted sampler needs something before the first open position.
      if (request.canvas.empty() && params.value("right_shift_logits", false))
        request.canvas = {entry.at("bos_id").get<int32_t>()};
      request.length =
          static_cast<int64_t>(request.canvas.size()) + params.at("max_new_tokens").get<int64_t>();
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

int64_t ceil_divide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Blocks of the open positions behind a prompt, or of a whole canvas with holes.
int64_t block_count(const Json& entry, const Request& request) {
  const Json& params = entry.at("params");
  const int64_t span =
      entry.at("method") == "infill" ? request.length : params.at("max_new_tokens").get<int64_t>();
  const Json size = params.value("block_size", Json());
  return is_off(size) ? 1 : ceil_divide(span, size.get<int64_t>());
}

// The reference cuts the padded batch into blocks: every row gets the steps per block of the
// longest one.
int64_t steps_per_block(const Json& entry, const std::vector<Request>& requests) {
  int64_t blocks = 1;
  for (const Request& request : requests) blocks = std::max(blocks, block_count(entry, request));
  return ceil_divide(entry.at("params").at("steps").get<int64_t>(), blocks);
}

Options decoder_options(const Json& entry, const std::vector<Request>& requests, int64_t blocks) {
  const Json& params = entry.at("params");
  Options options(decode::decoder_schema(""));
  options.set_i64("steps", steps_per_block(entry, requests) * blocks);
  const Json size = params.value("block_size", Json());
  options.set_i64("block_length", is_off(size) ? 0 : size.get<int64_t>());
  options.set_i64("gen_length", params.value("max_new_tokens", int64_t{0}));
  options.set_str("attention", "bidirectional");
  options.set_i64("shift", params.value("right_shift_logits", false) ? 1 : 0);
  options.set_str(
      "schedule",
      reference_schedule(entry.at("scheduler").get<std::string>(), entry, "none")->name());
  std::vector<std::string> suppress;
  for (const Json& id : params.value("suppress_tokens", Json::array()))
    suppress.push_back(std::to_string(id.get<int32_t>()));
  options.set_json(Json{{"suppress", suppress}});
  return options;
}

// One row of a canvas (batch, width) without what lies behind its own end.
Ids row_ids(const Tensor& canvas, int64_t row, int64_t length) {
  const auto begin = canvas.as<int32_t>().begin() + row * canvas.shape()[1];
  return {begin, begin + length};
}

// The canvases of one row, standing still left out: a row that is done before the others is shown
// unchanged.
std::vector<Ids> row_history(const Tensor& trace, int64_t row, int64_t length) {
  std::vector<Ids> history;
  for (int64_t i = 0; i < trace.shape()[0]; ++i) {
    Ids canvas = row_ids(trace.row(i), row, length);
    if (history.empty() || history.back() != canvas) history.push_back(std::move(canvas));
  }
  return history;
}

std::vector<Ids> decoder_history(const std::string& trace) {
  std::vector<Ids> history;
  for (size_t begin = 0; begin < trace.size();) {
    const size_t end = trace.find('\n', begin);
    Ids canvas = parse_json(trace.substr(begin, end - begin), "trace").at("ids").get<Ids>();
    if (history.empty() || history.back() != canvas) history.push_back(std::move(canvas));
    begin = end + 1;
  }
  return history;
}

std::string text_of(const Ids& ids) {
  return fmt::format("{}", fmt::join(ids, " "));
}

void compare_history(Case& c, int64_t row, const std::vector<Ids>& got,
                     const std::vector<Ids>& want) {
  c.equal(static_cast<int64_t>(got.size()), static_cast<int64_t>(want.size()),
          fmt::format("canvases of row {}", row));
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    c.equal(text_of(got[i]), text_of(want[i]), fmt::format("row {} canvas {}", row, i));
  }
}

// Logits of the first canvas as the model gives them: no shift, nothing suppressed, padding hidden.
void compare_first_logits(Case& c, model::Model& model, const std::vector<Request>& requests) {
  const Tensor want = c.array("first_logits");
  const Tensor first = c.array("trace").row(0);
  if (want.shape().rank() != 3 || want.shape()[0] != first.shape()[0] ||
      want.shape()[1] != first.shape()[1])
    c.skip("first_logits is not of the first canvas");
  Tensor keys(DType::u8, first.shape());
  for (size_t r = 0; r < requests.size(); ++r) {
    const auto begin =
        keys.mutable_as<uint8_t>().begin() + static_cast<int64_t>(r) * first.shape()[1];
    std::fill(begin, begin + requests[r].length, uint8_t{1});
  }
  Batch batch;
  batch.set("ids", first);
  batch.set("keys", keys);
  Options options(model::forward_schema());
  options.set_json(Json{{"attention", "bidirectional"}, {"shift", 0}});
  const double absolute = c.topic().cases().value("atol_first_logits", 5e-5);
  c.close({absolute, 0}, model::forward(model, batch, options).at("logits"), want, "first_logits",
          keys);
}

void compare_row(Case& c, const decode::Slot& done, int64_t row) {
  compare_history(c, row, decoder_history(done.trace),
                  row_history(c.array("trace"), row, done.length()));
  c.equal(text_of(done.ids), text_of(row_ids(c.array("final"), row, done.length())),
          fmt::format("final of row {}", row));
}

void run_case(Case& c, const Json& entry) {
  refuse_unknown(c, entry);
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  model->set_mask_token(entry.at("mask_id").get<int64_t>());
  const std::vector<Request> requests = requests_of(entry);
  if (c.has("first_logits")) compare_first_logits(c, *model, requests);

  // Rows with the same number of blocks share a decoder: steps are told for a whole request.
  std::map<int64_t, std::vector<int64_t>> by_blocks;
  for (size_t r = 0; r < requests.size(); ++r) {
    by_blocks[block_count(entry, requests[r])].push_back(static_cast<int64_t>(r));
  }
  for (const auto& [blocks, rows] : by_blocks) {
    decode::Decoder decoder(model, decoder_options(entry, requests, blocks));
    for (const int64_t row : rows) {
      const Request& request = requests[static_cast<size_t>(row)];
      decoder.add(request.canvas, request.fixed, Options(decode::slot_schema()));
    }
    decoder.run();
    for (size_t i = 0; i < rows.size(); ++i) {
      compare_row(c, decoder.slot(static_cast<int64_t>(i)), rows[i]);
    }
    // Rows of one batch wait for each other in the reference: its count is a row's own for one row
    // alone.
    if (requests.size() == 1) {
      c.equal(decoder.slot(0).evaluations, entry.at("nfe").get<int64_t>(), "nfe");
    }
  }
}

void run_transfer(Case& c, const Json& entry) {
  const noise::ScheduleRef schedule =
      reference_schedule(entry.at("scheduler").get<std::string>(), entry, "none");
  const std::vector<int64_t> counts = decode::transfer_counts(
      *schedule, entry.at("masks").get<int64_t>(), entry.at("steps").get<int64_t>());
  c.equal(fmt::format("{}", fmt::join(counts, " ")),
          fmt::format("{}", fmt::join(entry.at("transfer").get<std::vector<int64_t>>(), " ")),
          "transfer");
}

} // namespace

void run_samplers(Topic& topic) {
  for (const Json& entry : topic.list("transfer_schedules")) {
    const std::string name =
        fmt::format("transfer.{}.masks{}.steps{}", entry.at("scheduler").get<std::string>(),
                    entry.at("masks").get<int64_t>(), entry.at("steps").get<int64_t>());
    topic.run(name, [&](Case& c) { run_transfer(c, entry); });
  }
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) {
      if (!entry.contains("method"))
        c.skip("sampler " + entry.at("sampler").get<std::string>() +
               " with recorded draws is not supported yet");
      run_case(c, entry);
    });
  }
}

} // namespace dllm::parity
