// Any bytes as options: a JSON object, or lines key=value as on a command line. A refused object
// changes nothing, and what is accepted lies within the bounds of the schema.

#include "base/error.h"
#include "base/json.h"
#include "base/options.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>

namespace {

using namespace dllm;

const Schema& schema() {
  static const Schema instance(
      "fuzz", {option_bool("flag", false, "a flag"), option_i64("count", 3, 0, 100, "a count"),
               option_i64("seed", 0, INT64_MIN, INT64_MAX, "a seed"),
               option_f64("optimizer.lr", 1e-3, 0, 1, "a rate"), option_str("name", "", "any text"),
               option_choice("policy", "a", {"a", "b"}, "a choice"),
               option_list("stop", {}, "some texts")});
  return instance;
}

void check(const Options& options) {
  const int64_t count = options.i64("count");
  const double rate = options.f64("optimizer.lr");
  if (count < 0 || count > 100 || !(rate >= 0 && rate <= 1)) std::abort();
  if (options.str("policy") != "a" && options.str("policy") != "b") std::abort();
  options.to_json().dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Options options(schema());
  try {
    options.set_json(parse_json(text, "options"));
  } catch (const Error&) {
    if (options.to_json() != Options(schema()).to_json()) std::abort();
  }
  check(options);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const size_t equals = std::min(line.find('='), line.size());
    try {
      options.set_text(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
    } catch (const Error&) {
    }
    begin = end + 1;
  }
  check(options);
  return 0;
}
