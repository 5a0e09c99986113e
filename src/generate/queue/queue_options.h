#pragma once
// The options of a queue, and of the way in which one request is submitted to it.

#include "base/options.h"

namespace dllm::generate {

const Schema& queue_schema();      // options of kind "queue"
const Schema& submission_schema(); // options of kind "submission"

// Returns the options of kind "generator" that a queue sets.
Options generator_options(const Options& queue);

} // namespace dllm::generate
