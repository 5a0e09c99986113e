#pragma once
// Runs requests on a model, shows them, prints what came out. Shared by generate, infill and chat.

#include "../live_view.h"
#include "../session.h"

namespace dllm::cli {

struct Session {
  explicit Session(Context& context);
  Owned<dllm_engine> engine;
  Owned<dllm_model> model;
  Owned<dllm_tokenizer> tokenizer;
};

// fixed empty: all of canvas is given and gen_length open positions follow.
struct Request {
  std::vector<int32_t> canvas;
  std::vector<uint8_t> fixed;
};

// A causal model for which no policy was chosen decodes with the policy autoregressive; a line says so.
void choose_policy(Context& context, const Session& session);
// A decoder with the options of kind decoder. It keeps a trace only on request.
Owned<dllm_decoder> open_decoder(Context& context, const Session& session, bool trace);
// Adds a request with the options of kind slot; --length replaces gen_length. Returns the slot.
int64_t add_request(Context& context, dllm_decoder* decoder, const Request& request);
// For --help: what the option policy chooses, and its names.
std::string policy_sentence();
Progress progress_of(const dllm_decoder* decoder, int64_t slot);
// Steps that the policy needs for so many open positions; 0: it depends on the predictions.
int64_t planned_steps(const Context& context, int64_t open);
// Steps until all is decided, with a picture of request 0 (option quiet: none), then prints the texts. The requests
// have the seeds seed, seed + 1, ... of the option. Ctrl-C: what was decided so far is printed, kInterrupted.
int run_requests(Context& context, Session& session, const std::vector<Request>& requests);

}  // namespace dllm::cli
