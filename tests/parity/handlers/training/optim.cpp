// jax/optim and nano/optim: learning-rate tables, bare optimizer steps, and short training runs.

#include "base/error.h"
#include "graph/engine.h"
#include "graph/ops.h"
#include "handlers.h"
#include "handlers/training/optim_runs.h"
#include "runner.h"
#include "train/optimizer.h"
#include "train/trainer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <regex>

namespace dllm::parity {
namespace {

// The reference counts steps from 0; a run of one step has no schedule (dllm-jax, BaseTrainer).
train::LearningRate jax_rate(const Json& entry) {
  const int64_t total = entry.at("total_steps").get<int64_t>();
  return jax_learning_rate(
      entry.at("kind").get<std::string>(), total, entry.at("warmup_ratio").get<double>(),
      entry.at("learning_rate").get<double>(), entry.at("min_learning_rate").get<double>());
}

void compare_rates(Case& c, const train::LearningRate& rate, double peak, const Tensor& want,
                   Tolerance tolerance) {
  Tensor got(DType::f64, want.shape());
  for (int64_t i = 0; i < want.count(); ++i)
    got.mutable_as<double>()[static_cast<size_t>(i)] = peak * rate.factor(i);
  c.close(tolerance, got, want, "learning rates");
}

void run_rates(Topic& topic) {
  const Json& cases = topic.cases();
  if (cases.contains("lr_schedules")) {
    const Json& group = cases.at("lr_schedules");
    for (const Json& entry : group.at("arrays")) {
      const std::string array = entry.at("array").get<std::string>();
      topic.run(Json{{"name", array}, {"file", group.at("file")}}, [&](Case& c) {
        c.set_prefix("");
        compare_rates(c, jax_rate(entry), entry.at("learning_rate").get<double>(), c.array(array),
                      {1e-12, group.value("rtol", 1e-5)});
      });
    }
  }
  if (cases.contains("learning_rates")) {
    for (const auto& [name, entry] : cases.at("learning_rates").items()) {
      topic.run("lr." + name, [&, &name = name, &entry = entry](Case& c) {
        c.set_prefix("");
        compare_rates(c, nano_learning_rate(entry), entry.at("lr").get<double>(),
                      c.array("lr." + name), {1e-9, 1e-5});
      });
    }
  }
}

// Hyperparameters stand in the description: "clip 1.0, AdamW b1 .9 b2 .999 eps 1e-8 wd .01".
double described(const std::string& text, const std::string& word, double otherwise) {
  std::smatch match;
  const std::regex form("\\b" + word + " ([0-9.]+(?:e-?[0-9]+)?)");
  return std::regex_search(text, match, form) ? std::stod(match[1]) : otherwise;
}

// An optimizer of the trainer's programs, on bare arrays.
class BareOptimizer {
public:
  BareOptimizer(graph::Engine& engine, const train::Optimizer& optimizer, const Options& options,
                const std::vector<Tensor>& params)
      : engine_(engine) {
    const auto graph = std::make_shared<graph::Graph>(optimizer.name);
    std::vector<model::ParamSpec> layouts;
    for (const Tensor& param : params) {
      const bool is_matrix = param.shape().rank() > 1;
      layouts.push_back({.role = is_matrix ? model::ParamRole::weight : model::ParamRole::bias,
                         .element = param.shape(),
                         .pieces = {{"", param.shape()[0], false}}});
    }
    train::UpdateValues update;
    for (size_t i = 0; i < params.size(); ++i) {
      const auto input = [&](const std::string& kind, const Shape& shape) {
        return graph->input(kind + std::to_string(i), DType::f32, shape);
      };
      train::ParameterInputs in;
      in.layout = &layouts[i];
      in.parameter = input("p", params[i].shape());
      state_.push_back({params[i]});
      for (const train::StateArray& array : optimizer.state(options, layouts[i])) {
        in.state.push_back(input(array.name, array.layout.shape()));
        state_.back().emplace_back(DType::f32, array.layout.shape());
      }
      in.gradient = input("g", params[i].shape());
      update.parameters.push_back(in);
    }
    update.scalars = graph->input("scalars", DType::f32, {train::scalar_count(optimizer)});
    update.normalizer = graph::scalar(*graph, 1.0f);
    // The optimizer alone: a loss of 0 with gradients of 0 would be a batch without a target, which
    // changes no weight.
    update.loss_sum = graph::scalar(*graph, 1.0f);
    const train::Updated next = train::clipped_update(*graph, optimizer, options, update);
    for (const train::ParameterOutputs& made : next.parameters) {
      const std::string number = std::to_string(graph->outputs().size());
      graph->output("p" + number, made.parameter);
      for (size_t k = 0; k < made.state.size(); ++k)
        graph->output("s" + number + "." + std::to_string(k), made.state[k]);
    }
    program_ = engine.compile(graph);
  }

  void step(const std::vector<Tensor>& gradients, const std::vector<float>& scalars) {
    std::vector<graph::BufferRef> inputs;
    for (size_t i = 0; i < state_.size(); ++i) {
      for (const Tensor& tensor : state_[i]) inputs.push_back(engine_.upload(tensor));
      inputs.push_back(engine_.upload(gradients[i]));
    }
    const auto count = static_cast<int64_t>(scalars.size());
    inputs.push_back(engine_.upload(Tensor::from(Shape{count}, scalars)));
    const auto outputs = program_->run(inputs);
    size_t next = 0;
    for (std::vector<Tensor>& arrays : state_) {
      for (Tensor& array : arrays) array = outputs[next++]->read().clone();
    }
  }
  const Tensor& param(size_t i) const { return state_[i][0]; }

private:
  graph::Engine& engine_;
  std::shared_ptr<graph::Program> program_;
  std::vector<std::vector<Tensor>> state_; // parameter, arrays of the optimizer
};

std::vector<float> scalars_of(const train::Optimizer& optimizer, const Options& options,
                              const train::UpdateInfo& info, double clip) {
  std::vector<float> scalars;
  for (const double value : optimizer.step_scalars(options, info))
    scalars.push_back(static_cast<float>(value));
  scalars.resize(static_cast<size_t>(train::scalar_count(optimizer)));
  scalars[optimizer.scalars.size() + train::kClip] = static_cast<float>(clip);
  return scalars;
}

// "... factored.grad * (1, 2, 3)": the numbers in brackets.
std::vector<float> multiples_of(const std::string& text) {
  static const std::regex list("factored\\.grad \\* \\(([0-9., ]+)\\)"), number("[0-9.]+");
  std::smatch found;
  if (!std::regex_search(text, found, list))
    fail(Code::invalid_argument, "no multiples of factored.grad in: {}", text);
  const std::string numbers = found[1];
  std::vector<float> multiples;
  for (auto it = std::sregex_iterator(numbers.begin(), numbers.end(), number);
       it != std::sregex_iterator(); ++it) {
    multiples.push_back(std::stof(it->str()));
  }
  return multiples;
}

// Multiples of one gradient at the rate lr[1]; only the last value is stored.
void run_factored(Case& c, const std::string& text, Tolerance tolerance) {
  c.set_prefix("");
  const train::Optimizer& adafactor = train::find_optimizer("adafactor");
  Options options(train::trainer_schema());
  options.set_str("compat", "dllm-jax");
  BareOptimizer optimizer(*c.topic().engine(), adafactor, options, {c.array("init.big")});
  const double rate = c.array("lr").as<float>()[1];
  int64_t step = 0;
  for (const float multiple : multiples_of(text)) {
    Tensor gradient = c.array("factored.grad").clone();
    for (float& value : gradient.mutable_as<float>()) value *= multiple;
    const double decay = described(text, "wd", 0.01);
    optimizer.step({gradient}, scalars_of(adafactor, options, {rate, decay, ++step}, INFINITY));
  }
  const std::string last = "factored.after" + std::to_string(step - 1);
  c.close(tolerance, optimizer.param(0), c.array(last), last);
}

void run_bare(Case& c, const Json& entry, Tolerance tolerance) {
  const std::string name = entry.at("name").get<std::string>(),
                    text = entry.at("description").get<std::string>();
  if (name == "factored") return run_factored(c, text, tolerance);
  c.set_prefix("");
  std::vector<std::string> names; // "grad0.w"
  for (const std::string& array : c.names("grad0.")) names.push_back(array.substr(6));
  std::vector<Tensor> params;
  for (const std::string& param : names) params.push_back(c.array("init." + param));
  const train::Optimizer& kind = train::find_optimizer(name.substr(0, name.find('_')));
  Options options(train::trainer_schema());
  options.set_str("compat", "dllm-jax");
  if (kind.name == "adamw") {
    options.set_f64("beta1", described(text, "b1", 0.9));
    options.set_f64("beta2", described(text, "b2", 0.999));
    options.set_f64("eps", described(text, "eps", 1e-8));
  }
  BareOptimizer optimizer(*c.topic().engine(), kind, options, params);
  const Tensor& rates = c.array("lr");
  for (int64_t i = 0; i < rates.count(); ++i) {
    const double rate = rates.as<float>()[static_cast<size_t>(i)];
    std::vector<Tensor> gradients;
    for (const std::string& param : names)
      gradients.push_back(c.array("grad" + std::to_string(i) + "." + param));
    optimizer.step(gradients, scalars_of(kind, options, {rate, described(text, "wd", 0.01), i + 1},
                                         described(text, "clip", 1.0)));
    for (size_t p = 0; p < names.size(); ++p) {
      const std::string after = name + ".after" + std::to_string(i) + "." + names[p];
      c.close(tolerance, optimizer.param(p), c.array(after), after);
    }
  }
}

void run_bare_steps(Topic& topic) {
  if (!topic.cases().contains("optimizer_steps")) return;
  const Json& group = topic.cases().at("optimizer_steps");
  for (const Json& optimizer : group.at("optimizers")) {
    Json entry = optimizer;
    entry["file"] = group.at("file");
    topic.run(entry, [&](Case& c) {
      run_bare(c, entry, {group.value("atol", 1e-6), group.value("rtol", 2e-5)});
    });
  }
}

} // namespace

void run_optim(Topic& topic) {
  for (const Json& entry : topic.list("runs")) {
    topic.run(entry, [&](Case& c) { run_jax_training(c, entry); });
  }
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) { run_nano_training(c, entry); });
  }
  run_rates(topic);
  run_bare_steps(topic);
}

} // namespace dllm::parity
