#pragma once
// The terms that an objective adds to its loss, and the teacher that they share.

#include "noise/terms/term.h"

namespace dllm::noise {

struct Loss;

class LossTerms {
public:
  explicit LossTerms(const Options& options);

  bool empty() const { return terms_.empty(); }
  // Returns the parts of the model that the terms and their teacher read, and those that the terms
  // train.
  std::vector<std::string> parts() const;
  std::vector<std::string> trained_parts() const;
  // Returns the networks that the terms train, as Objective::new_parts.
  std::map<std::string, Json> new_parts(const model::ModelConfig& base) const;
  // Fails with failed_precondition when the teacher is the model without its adapters, and the
  // model has none.
  void check(const model::Model& model) const;
  bool is_prepared(const Batch& prepared) const;
  void prepare(Batch& prepared, const TermContext& context, const TermDraws& draws) const;
  void feed(const Batch& prepared, const TermContext& context, Batch& feed) const;

  // Prepares the inputs of the pass that the loss makes.
  void before_loss(model::Builder& builder, model::ForwardInputs& inputs,
                   const std::map<std::string, graph::Value>& arrays) const;
  // Weighs the loss of the objective, and adds the terms to it.
  void add_to(Loss& loss, model::Builder& builder,
              const std::map<std::string, graph::Value>& arrays) const;

private:
  // A term in use.
  struct Term {
    const TermEntry* entry;
    double weight; // the option
    LossTermRef term;
  };
  bool reads_teacher() const;
  bool reads_states() const;

  std::vector<Term> terms_;
  Teacher teacher_;
  double own_weight_; // of the objective's own loss
};

// Returns the options of the teacher and of all terms, which every objective has. Their group is
// kTermGroup.
std::vector<OptionSpec> term_options();
// Fails with invalid_argument when an option of a term is set, and the weight of the term is 0; and
// for an objective that the terms in use do not fit.
void check_terms(const TermUse& use);
// Sets the weights of all terms to 0. Returns false when they are.
bool turn_off_terms(Options& options);

} // namespace dllm::noise
