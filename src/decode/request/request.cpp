#include "decode/request/request.h"

#include "base/error.h"
#include "decode/request/policy.h"

namespace dllm::decode {
namespace {

constexpr uint32_t kNormals = 0x6e6f726d; // "norm"; the words of position_uniform have no such key

// Returns the key with which a request sets an option of its decoder. A number below the option's
// range, and an empty list or text, mean the decoder's value.
OptionSpec of_request(const OptionSpec& option, PerRequest how = PerRequest::replaces) {
  const std::string sentence = "As the decoder's, for this request; ";
  const auto less = static_cast<int64_t>(option.min) - 1;
  const std::string otherwise = sentence + std::to_string(less) + ": the decoder's.";
  switch (option.type) {
  case OptionType::i64:
    return option_i64(option.key, less, less, static_cast<int64_t>(option.max), otherwise);
  case OptionType::f64:
    return option_f64(option.key, static_cast<double>(less), static_cast<double>(less), option.max,
                      otherwise);
  case OptionType::list:
    return option_list(option.key, {},
                       how == PerRequest::adds ? "For this request, in addition to the decoder's."
                                               : sentence + "empty: the decoder's.",
                       option.list_of);
  case OptionType::str: return option_str(option.key, "", sentence + "empty: the decoder's.");
  case OptionType::boolean: break;
  }
  fail(Code::internal, "option {} has no value that means the decoder's", option.key);
}

std::vector<OptionSpec> request_keys() {
  std::vector<OptionSpec> keys = {
      option_i64("seed", 0, INT64_MIN, INT64_MAX, "The same seed gives the same tokens."),
      option_i64("gen_length", -1, -1, 1 << 24,
                 "Open positions after the canvas; -1: the decoder's."),
      option_f64("temperature", -1, -1, 100,
                 "As the decoder's, for this request; -1: the decoder's."),
      option_i64("prompt_length", -1, -1, 1 << 24,
                 "Given positions at the front of a canvas with holes: blocks begin after "
                 "them; -1: at the canvas's beginning."),
      option_ids("stop",
                 "Token ids that end the text: when one is decided and no position before it "
                 "is open, the rest becomes this token."),
  };
  for (const RequestKey& key : request_settings()) {
    keys.push_back(of_request(key.option, key.how));
    keys.back().group = "decoder";
  }
  add_filters(keys, [](const OptionSpec& option) { return of_request(option); });
  return keys;
}

} // namespace

void add_filters(std::vector<OptionSpec>& keys,
                 const std::function<OptionSpec(const OptionSpec& option)>& key) {
  const auto temperature = std::ranges::find(keys, "temperature", &OptionSpec::key);
  temperature->group = "draw";
  std::vector<OptionSpec> filters;
  for (const graph::DrawFilter& filter : graph::draw_filters()) {
    filters.push_back(key(filter.option));
    filters.back().group = "draw";
  }
  keys.insert(temperature + 1, filters.begin(), filters.end());
}

const Schema& request_schema() {
  static const Schema schema("slot", request_keys());
  return schema;
}

int64_t Request::open_count(int64_t begin, int64_t end) const {
  int64_t count = 0;
  for (int64_t i = begin; i < end; ++i) count += is_open(i);
  return count;
}

std::vector<int64_t> Request::open_positions(int64_t begin, int64_t end) const {
  std::vector<int64_t> open;
  for (int64_t i = begin; i < end; ++i) {
    if (is_open(i)) open.push_back(i);
  }
  return open;
}

void Request::decide(int64_t position, int32_t token, float probability, State state) {
  const auto at = static_cast<size_t>(position);
  ids[at] = token;
  confidence[at] = probability;
  states[at] = state;
}

void Request::reopen(int64_t position, int32_t mask_id) {
  decide(position, mask_id, 0.0f, State::masked);
  --decided;
}

float position_uniform(const Request& request, int64_t position, int word) {
  if (request.random_source != nullptr)
    return request.random_source->uniform(request, position, word);
  return seeded_uniform(request.settings.seed, request.steps, position, word);
}

float seeded_uniform(uint64_t seed, int64_t step, int64_t position, int word) {
  const Key key = stream_key(seed, Stream::decode, static_cast<uint64_t>(step),
                             static_cast<uint64_t>(position));
  return uniform_from_bits(random_bits_at(key, static_cast<uint64_t>(word)));
}

void position_normals(uint64_t seed, int64_t step, int64_t position, std::span<float> numbers) {
  const Key key = fold_in(stream_key(seed, Stream::decode, static_cast<uint64_t>(step),
                                     static_cast<uint64_t>(position)),
                          kNormals);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double bits = random_bits_at(key, i); // the middle of its interval is never 0 or 1
    numbers[i] = static_cast<float>(normal_quantile((bits + 0.5) / 4294967296.0));
  }
}

} // namespace dllm::decode
