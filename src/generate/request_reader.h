#pragma once
// A RequestReader turns the options of a request into a canvas with settings, for one model.

#include "base/options.h"
#include "base/task.h"
#include "generate/constraints/automata.h"
#include "generate/defaults.h"
#include "generate/text_request.h"
#include "model/model.h"
#include "text/tokenizer.h"

#include <memory>
#include <string>

namespace dllm::generate {

// Any thread may read requests, several at a time. Keeps the model and the tokenizer alive.
class RequestReader {
public:
  // options: of kind "generator". tokenizer: encodes prompts with its own options.
  RequestReader(std::shared_ptr<model::Model> model,
                std::shared_ptr<const text::Tokenizer> tokenizer, const Options& options);

  // Reads a request of kind "request" or "request:<policy>". Fails as make_prompt, for an option
  // that the policy lacks, for a canvas that is longer than the model allows, and for a pattern
  // that no text of this length matches.
  std::shared_ptr<const TextRequest> read(const Options& request, const Task* task) const;

  const PolicyChoice& choice() const { return choice_; } // of requests that name no policy
  const std::shared_ptr<model::Model>& model() const { return model_; }
  const std::shared_ptr<const text::Tokenizer>& tokenizer() const { return tokenizer_; }

private:
  std::vector<int32_t> ends_of(const Options& request, const Prompt& prompt) const;
  // Returns the constraint of a request; null when it has none. With one, the request draws no mask
  // token.
  std::shared_ptr<const AnswerConstraint>
  constraint_of(const Options& options, TextRequest& request, const Task* task) const;

  std::shared_ptr<model::Model> model_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  bool takes_file_; // option defaults: generation_config.json counts
  PolicyChoice choice_;
  mutable Automata automata_;
};

} // namespace dllm::generate
