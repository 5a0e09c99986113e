// torch/decoding_misc: single rules and loops of decoding, one file per kind of case.

#include "handlers/decoding/decoding_misc.h"

#include "handlers.h"
#include "handlers/decoding/decoding_rules.h"
#include "handlers/decoding/samplers.h"

#include <nlohmann/json.hpp>

#include <set>

namespace dllm::parity {
namespace {

struct Kind {
  std::string_view name;
  void (*run)(Case&, const Json&);
};

constexpr Kind kKinds[] = {
    {"credit", run_credit}, {"filter", run_filter},         {"open_dllm", run_open_dllm},
    {"select", run_select}, {"stochastic", run_stochastic},
};

const Kind* find_kind(std::string_view name) {
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

} // namespace

void run_stochastic(Case& c, const Json& entry) {
  Json whole = entry;
  whole["method"] = "sample";
  run_mdlm(c, whole);
}

void run_decoding_misc(Topic& topic) {
  std::set<std::string> unknown;
  for (const Json& entry : topic.list("cases")) {
    const auto name = entry.at("name").get<std::string>();
    const std::string kind = name.substr(0, name.find('.'));
    if (const Kind* known = find_kind(kind))
      topic.run(entry, [&](Case& c) { known->run(c, entry); });
    else if (unknown.insert(kind).second)
      topic.skip(kind + ".*", "kind " + kind + " is not supported yet");
  }
}

} // namespace dllm::parity
