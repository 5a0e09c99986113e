#pragma once
// Runs requests on a model, shows them, prints what came out. Shared by generate, infill and the end of train.

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

// Adds a request with the options of kind slot; --length wins over gen_length. Answers the slot.
int64_t add_request(Context& context, dllm_decoder* decoder, const Request& request);
Progress progress_of(const dllm_decoder* decoder, int64_t slot);
// Steps until all is decided, with a picture of request 0 (option quiet: none), then prints the texts.
int run_requests(Context& context, Session& session, const std::vector<Request>& requests);

}  // namespace dllm::cli
