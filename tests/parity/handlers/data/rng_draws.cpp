#include "handlers/data/rng_draws.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <regex>
#include <utility>
#include <vector>

namespace dllm::parity {
namespace {

Tensor uniforms(Key key, const Shape& shape, CounterLayout layout) {
  Tensor made(DType::f32, shape);
  random_uniform(key, made.mutable_as<float>(), layout);
  return made;
}

// uniform(minval, maxval) of jax.random, never below minval; XLA rounds product and sum once.
Tensor uniforms_between(Key key, const Shape& shape, CounterLayout layout, float low, float high) {
  Tensor made = uniforms(key, shape, layout);
  for (float& u : made.mutable_as<float>()) u = std::max(low, std::fma(u, high - low, low));
  return made;
}

Tensor gumbels(Key key, const Shape& shape, CounterLayout layout) {
  Tensor made = uniforms_between(key, shape, layout, std::numeric_limits<float>::min(), 1.0f);
  for (float& u : made.mutable_as<float>())
    u = static_cast<float>(-std::log(-std::log(static_cast<double>(u))));
  return made;
}

// The largest of logits + gumbel noise, for each of the leading rows of `shape`.
Tensor categories(Key key, const Shape& shape, CounterLayout layout, const Tensor& logits) {
  const int64_t rows = logits.shape()[0], choices = logits.shape()[1];
  std::vector<int64_t> dims = shape.dims();
  dims.push_back(choices);
  const Tensor noise = gumbels(key, Shape(dims), layout);
  Tensor made(DType::i32, shape);
  for (int64_t i = 0; i < shape.count(); ++i) {
    float best = -std::numeric_limits<float>::infinity();
    for (int64_t c = 0; c < choices; ++c) {
      const float value = noise.as<float>()[static_cast<size_t>(i * choices + c)] +
                          logits.as<float>()[static_cast<size_t>(i % rows * choices + c)];
      if (value <= best) continue;
      best = value;
      made.mutable_as<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(c);
    }
  }
  return made;
}

// jax.random.permutation of 0 ... n - 1: rounds of sorting by random bits, so many that equal bits
// do not matter.
std::vector<int32_t> permutation(Key key, int64_t n, CounterLayout layout) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const double most = std::numeric_limits<uint32_t>::max();
  const auto rounds = static_cast<int>(
      std::ceil(3 * std::log(static_cast<double>(std::max<int64_t>(n, 1))) / std::log(most)));
  for (int round = 0; round < rounds; ++round) {
    const std::vector<Key> two = split(key, 2, layout);
    key = two[0];
    std::vector<uint32_t> bits(order.size());
    random_bits(two[1], bits, layout);
    std::vector<size_t> places(order.size());
    std::iota(places.begin(), places.end(), size_t{0});
    std::ranges::stable_sort(places, {}, [&](size_t place) { return bits[place]; });
    std::vector<int32_t> next;
    for (const size_t place : places) next.push_back(order[place]);
    order = std::move(next);
  }
  return order;
}

// The quantile of a uniform number between the probabilities of the ends, which themselves are
// never drawn.
Tensor truncated_normals(Key key, const Shape& shape, CounterLayout layout, float lower,
                         float upper) {
  const auto share = [](float end) { return std::erf(end / std::numbers::sqrt2_v<float>); };
  Tensor made = uniforms_between(key, shape, layout, share(lower), share(upper));
  for (float& u : made.mutable_as<float>()) {
    const auto normal = static_cast<float>(normal_quantile((static_cast<double>(u) + 1) / 2));
    u = std::clamp(normal, std::nextafter(lower, upper), std::nextafter(upper, lower));
  }
  return made;
}

double number_at(const DrawInputs& inputs, size_t index, const std::string& kind) {
  if (index < inputs.numbers.size()) return inputs.numbers[index];
  fail(Code::invalid_argument, "cases.json gives {} numbers for {}, number {} is needed",
       inputs.numbers.size(), kind, index + 1);
}

} // namespace

std::vector<double> numbers_of_draw(const std::string& text) {
  static const std::regex shape("\\([^()]*,\\s*\\)|\\([0-9, ]*\\)"),
      number("[,=(]\\s*(-?[0-9.]+(?:e-?[0-9]+)?)\\s*(?=[,)])");
  const std::string bare = std::regex_replace(text, shape, "shape");
  std::vector<double> numbers;
  for (auto it = std::sregex_iterator(bare.begin(), bare.end(), number);
       it != std::sregex_iterator(); ++it) {
    numbers.push_back(std::stod((*it)[1]));
  }
  return numbers;
}

// Ours takes (u + 1) / 2.
Tensor normal_numbers(Key key, const Shape& shape, CounterLayout layout) {
  const float least = std::nextafter(-1.0F, 0.0F);
  Tensor made = uniforms_between(key, shape, layout, least, 1.0F);
  for (float& number : made.mutable_as<float>())
    number = static_cast<float>(normal_quantile((static_cast<double>(number) + 1) / 2));
  return made;
}

bool derived_draw(const std::string& kind, Key key, const Shape& shape, CounterLayout layout,
                  const DrawInputs& inputs, Tensor* made) {
  const auto number = [&](size_t index) {
    return static_cast<float>(number_at(inputs, index, kind));
  };
  if (kind == "gumbel") {
    *made = gumbels(key, shape, layout);
  } else if (kind == "uniform_range") {
    *made = uniforms_between(key, shape, layout, number(0), number(1));
  } else if (kind == "exponential") {
    *made = uniforms(key, shape, layout);
    for (float& u : made->mutable_as<float>()) u = -std::log1p(-u);
  } else if (kind == "truncated_normal") {
    *made = truncated_normals(key, shape, layout, number(0), number(1));
  } else if (kind == "categorical" || kind == "categorical_shape") {
    *made = categories(key, shape, layout, inputs.logits);
  } else if (kind == "bernoulli.scalar" || kind == "bernoulli.rows") {
    const Tensor u = uniforms(key, shape, layout);
    *made = Tensor(DType::i32, shape);
    const int64_t width = shape[1];
    for (int64_t i = 0; i < shape.count(); ++i) {
      const float odds = kind == "bernoulli.rows"
                             ? inputs.row_odds.as<float>()[static_cast<size_t>(i / width)]
                             : number(0);
      made->mutable_as<int32_t>()[static_cast<size_t>(i)] =
          u.as<float>()[static_cast<size_t>(i)] < odds ? 1 : 0;
    }
  } else if (kind == "permutation") {
    *made = Tensor::from(shape, permutation(key, shape.count(), layout));
  } else if (kind == "choice_no_replace") {
    std::vector<int32_t> order = permutation(key, static_cast<int64_t>(number(0)), layout);
    order.resize(static_cast<size_t>(shape.count()));
    *made = Tensor::from(shape, order);
  } else {
    return false;
  }
  return true;
}

} // namespace dllm::parity
