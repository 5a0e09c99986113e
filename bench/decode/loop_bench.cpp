// The steps of a block as one loop against a program per step, on one engine: soft parallel
// decoding with forced work as in spd_bench.cpp, 128 new tokens.
//
//   bench_decode loop [--shape qwen3-0.6b|qwen2.5-0.5b|small] [--plugin P] [--turns 3]
//
// P: path of a PJRT plugin, or cpu, cuda; without it the CPU engine. Host and device loop take
// turns; the first run of each compiles and is printed apart.

#include "base/error.h"
#include "bed.h"
#include "decode/decoder/decoder.h"
#ifdef DLLM_PJRT
#include "pjrt/engine.h"
#endif

#include <chrono>
#include <map>

namespace dllm::decode {
namespace {

constexpr int64_t kBlock = 32, kSteps = 8, kNew = 128;

struct Figures {
  double first = 0, best = 1e30, steps = 0, launches = 0, round_trips = 0;
};

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<Decoder> decoder_of(std::shared_ptr<model::Model> model, const Json& own) {
  Json values = {{"policy", "spd"},  {"block_length", kBlock}, {"steps", kSteps},
                 {"threshold", 1.0}, {"confidence_stop", 2.0}, {"gen_length", kNew},
                 {"trace", false}};
  values.update(own);
  Options options(decoder_schema("spd"));
  options.set_json(values);
  return std::make_unique<Decoder>(std::move(model), options);
}

void turn(Decoder& decoder, bool first, Figures& figures) {
  std::vector<int32_t> prompt(static_cast<size_t>(kBlock));
  std::iota(prompt.begin(), prompt.end(), 1);
  const double launches = decoder.metric(-1, "launches"),
               round_trips = decoder.metric(-1, "round_trips"), begin = seconds();
  decoder.start(prompt, 1);
  decoder.run();
  const double took = seconds() - begin;
  (first ? figures.first : figures.best) = first ? took : std::min(figures.best, took);
  figures.steps = decoder.metric(-1, "steps");
  figures.launches = decoder.metric(-1, "launches") - launches;
  figures.round_trips = decoder.metric(-1, "round_trips") - round_trips;
}

std::shared_ptr<graph::Engine> engine_of(const std::string& plugin) {
  Options options(graph::engine_schema());
  if (plugin.empty()) return cpu::make_engine(options);
#ifdef DLLM_PJRT
  options.set_str("kind", "pjrt");
  options.set_str("plugin", plugin);
  options.set_str("pjrt.cache", "off");
  return pjrt::make_engine(options);
#else
  fail(Code::unimplemented, "this build has no engine for plugins");
#endif
}

} // namespace

void bench_loop(const std::vector<std::string>& words) {
  std::map<std::string, std::string> given{{"--shape", "small"}, {"--turns", "3"}};
  for (size_t i = 0; i + 1 < words.size(); i += 2) given[words[i]] = words[i + 1];
  const auto engine = engine_of(given["--plugin"]);
  const auto model =
      model::new_model(engine, shape_named(given["--shape"]), Options(model::model_schema()));
  fmt::print("{} on {}, {} new tokens, blocks of {}, {} steps each\n", given["--shape"],
             engine->device_name(0), kNew, kBlock, kSteps);
  for (const char* implementation : {"kv_fast", "fast"}) {
    std::map<std::string, std::unique_ptr<Decoder>> decoders;
    std::map<std::string, Figures> figures;
    for (const char* loop : {"host", "device"}) {
      decoders[loop] = decoder_of(model, {{"implementation", implementation}, {"loop", loop}});
      turn(*decoders[loop], true, figures[loop]);
    }
    for (int i = 0; i < std::atoi(given["--turns"].c_str()); ++i) {
      for (auto& [loop, decoder] : decoders) turn(*decoder, false, figures[loop]);
    }
    for (const char* loop : {"host", "device"}) {
      const Figures& f = figures[loop];
      fmt::print("{:8} {:7} {:8.2f} ms a step, {:3} launches, {:3} round trips for {} steps, first "
                 "run {:.2f} s\n",
                 implementation, loop, 1000 * f.best / f.steps, f.launches, f.round_trips, f.steps,
                 f.first);
    }
  }
}

} // namespace dllm::decode
