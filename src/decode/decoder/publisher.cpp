#include "decode/decoder/publisher.h"

#include "base/error.h"
#include "decode/trace/metrics.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <utility>

namespace dllm::decode {
namespace {

RequestCopyRef copy_of(const Slot& slot) {
  const Request& request = slot.request();
  auto copy = std::make_shared<RequestCopy>();
  copy->number = request.number;
  copy->ids = request.ids;
  copy->states = request.states;
  copy->confidence = request.confidence;
  copy->kept = slot.kept();
  copy->finish = request.finish;
  copy->failure = slot.failure();
  copy->open = request.open_count(0, request.length());
  copy->steps = request.steps;
  copy->evaluations = request.evaluations;
  copy->nfe = slot.session().nfe(request);
  copy->prefills = request.prefills;
  copy->commits = request.commits;
  copy->launches = request.launches;
  copy->round_trips = request.round_trips;
  copy->decided = request.decided;
  if (slot.is_predicted())
    copy->predictions = std::make_shared<const std::vector<Prediction>>(slot.predictions());
  copy->trace = slot.trace();
  copy->trace_lines = slot.trace() ? slot.trace()->lines() : 0;
  return copy;
}

Json describe_slots(const Published::Slots& slots) {
  Json described = Json::array();
  for (const auto& [number, s] : slots) {
    described.push_back({{"slot", number},
                         {"length", s->length()},
                         {"open", s->open},
                         {"steps", s->steps},
                         {"nfe", s->evaluations},
                         {"done", !s->active()}});
    if (s->failure != nullptr) {
      described.back()["error"] = {{"status", code_name(s->failure->code())},
                                   {"text", s->failure->text()},
                                   {"hint", s->failure->hint()}};
    }
  }
  return described;
}

} // namespace

void Publisher::put(const std::vector<Slot*>& changed, const DecoderTotals& totals,
                    bool drop_others) {
  Published::Slots copies;
  for (const Slot* slot : changed) copies[slot->number()] = copy_of(*slot);
  published_.put(std::move(copies), totals, drop_others);
}

void Publisher::remove(int64_t number, const DecoderTotals& totals) {
  published_.remove(number, totals);
}

double Publisher::metric(int64_t number, const std::string& key, bool suspended) const {
  if (number != -1) return static_cast<double>(metric_of(*copy(number), key));
  return static_cast<double>(metric_of(DecoderMoment{published_.all(), suspended}, key));
}

std::string Publisher::trace(int64_t number, const Options& options) const {
  if (!options.boolean("trace")) {
    fail_with_hint("make the decoder with trace = true", Code::failed_precondition,
                   "this decoder keeps no trace");
  }
  const RequestCopyRef held = copy(number);
  return held->trace->text(held->trace_lines);
}

Json Publisher::describe(const Method& method, bool suspended) const {
  const DecoderMoment moment{published_.all(), suspended};
  const DecoderTotals& totals = moment.now.totals;
  Json reported = describe_metrics(moment);
  return {{"policy", method.options().str("policy")},
          {"options", method.options().to_json()},
          {"schedule", method.schedule().describe()},
          {"mask_id", method.mask_id()},
          {"cache",
           {{"bytes", totals.cache_bytes},
            {"rows", totals.cache_rows},
            {"capacity", totals.cache_capacity},
            {"reused", totals.reused}}},
          {"approximation", method.policy().approximation()},
          {"loop",
           {{"runs_on", method.runs_on_device() ? "device" : "host"}, {"why", method.loop_why()}}},
          {"metrics", std::move(reported["metrics"])},
          {"units", std::move(reported["units"])},
          {"slots", describe_slots(moment.now.slots)}};
}

} // namespace dllm::decode
