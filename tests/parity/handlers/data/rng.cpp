// jax/rng: threefry in both counter layouts. Arrays s<seed>.<what>; one case per file and kind of
// array. Draws that the library does not offer are made of its bits here.

#include "base/error.h"
#include "base/random.h"
#include "handlers.h"
#include "handlers/data/rng_draws.h"
#include "runner.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <regex>
#include <set>

namespace dllm::parity {
namespace {

constexpr double kLibm = 2e-6; // as cases.json has it

// One array: "s42.randint_-5_13".
struct Drawn {
  std::string name;
  uint64_t seed = 0;
  std::string kind;             // "randint"
  std::vector<int64_t> numbers; // what follows the kind
};

bool parse(const std::string& name, Drawn* drawn) {
  static const std::regex form("s([0-9]+)\\.([a-z_]*?[a-z](?:\\.[a-z]+)?)_?((?:[-._x]?-?[0-9]+)*)");
  std::smatch match;
  if (!std::regex_match(name, match, form)) return false;
  drawn->name = name;
  drawn->seed = std::stoull(match[1]);
  drawn->kind = match[2];
  static const std::regex number("-?[0-9]+");
  const std::string rest = match[3];
  for (auto it = std::sregex_iterator(rest.begin(), rest.end(), number);
       it != std::sregex_iterator(); ++it) {
    drawn->numbers.push_back(std::stoll(it->str()));
  }
  return true;
}

Tensor words(const std::vector<Key>& keys, Shape shape) {
  std::vector<uint32_t> flat;
  for (const Key& key : keys) {
    flat.push_back(key.hi);
    flat.push_back(key.lo);
  }
  return Tensor::from(std::move(shape), flat);
}

// The others go through functions of libm; the reference's erfinv is a polynomial in f32.
bool is_exact(const std::string& kind) {
  static const std::set<std::string> rounded{"normal", "gumbel", "exponential", "truncated_normal"};
  return !rounded.contains(kind);
}

// Answers false for kinds the library does not draw.
bool draw(const Drawn& what, const Tensor& want, CounterLayout layout, const DrawInputs& inputs,
          Tensor* got) {
  const Key key = make_key(what.seed);
  const Shape& shape = want.shape();
  if (what.kind == "key")
    *got = words({key}, shape);
  else if (what.kind == "split" || what.kind == "split_shape")
    *got = words(split(key, want.count() / 2, layout), shape);
  else if (what.kind == "fold_in")
    *got = words({fold_in(key, static_cast<uint32_t>(what.numbers.at(0)))}, shape);
  else if (what.kind == "bits") {
    *got = Tensor(DType::u32, shape);
    random_bits(key, got->mutable_as<uint32_t>(), layout);
  } else if (what.kind == "uniform") {
    *got = Tensor(DType::f32, shape);
    random_uniform(key, got->mutable_as<float>(), layout);
  } else if (what.kind == "randint") {
    *got = Tensor(DType::i32, shape);
    random_int(key, got->mutable_as<int32_t>(), static_cast<int32_t>(what.numbers.at(0)),
               static_cast<int32_t>(what.numbers.at(1)), layout);
  } else if (what.kind == "normal") {
    *got = normal_numbers(key, shape, layout);
  } else {
    return derived_draw(what.kind, key, shape, layout, inputs, got);
  }
  return true;
}

// Those that cases.json writes in the call which it gives for arrays of this kind.
std::vector<double> numbers_of_kind(const Topic& topic, const std::string& kind) {
  const auto call = topic.cases().at("arrays").find("s<seed>." + kind);
  return call == topic.cases().at("arrays").end() ? std::vector<double>{}
                                                  : numbers_of_draw(call->get<std::string>());
}

} // namespace

void run_rng(Topic& topic) {
  for (const auto& [file, meaning] : topic.cases().at("files").items()) {
    const bool partitionable = meaning.get<std::string>().find("=True") != std::string::npos;
    const CounterLayout layout =
        partitionable ? CounterLayout::partitionable : CounterLayout::original;
    DrawInputs inputs{
        topic.array("categorical_logits", file), topic.array("bernoulli_p_rows", file), {}};
    std::map<std::string, std::vector<Drawn>> kinds;
    for (const std::string& name : topic.array_names()) {
      Drawn drawn;
      if (topic.has(name, file) && parse(name, &drawn)) {
        auto& list = kinds[drawn.kind];
        const bool known = std::any_of(list.begin(), list.end(),
                                       [&](const Drawn& other) { return other.name == name; });
        if (!known) list.push_back(drawn);
      }
    }
    const std::string stem = file.substr(0, file.find('.'));
    for (const auto& [kind, list] : kinds) {
      topic.run(Json{{"name", stem + "." + kind}, {"file", file}}, [&](Case& c) {
        c.set_prefix("");
        inputs.numbers = numbers_of_kind(topic, kind);
        for (const Drawn& what : list) {
          Tensor got;
          if (!draw(what, c.array(what.name), layout, inputs, &got))
            c.skip("the library draws no " + what.kind);
          const Tolerance tolerance = is_exact(what.kind) ? Tolerance{} : Tolerance{kLibm, kLibm};
          c.close(tolerance, got, c.array(what.name), what.name);
        }
      });
    }
  }
}

} // namespace dllm::parity
