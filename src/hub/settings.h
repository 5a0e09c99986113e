#pragma once
// Where the hub and its cache are, from the variables that huggingface_hub reads too.

#include <string>

namespace dllm::hub {

struct Settings {
  std::string endpoint; // "https://huggingface.co", without '/' at its end
  std::string token;    // "": requests have no account
  std::string cache;    // folder
  bool is_offline = false;
  int attempts = 5; // for one request
};

// Reads HF_ENDPOINT, HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE, the cache (as cache_folder) and the
// token: HF_TOKEN, HUGGING_FACE_HUB_TOKEN, or the file HF_TOKEN_PATH or $HF_HOME/token unless
// HF_HUB_DISABLE_IMPLICIT_TOKEN is set. Fails with invalid_argument for an endpoint that is not a
// URL and for a token with a character that is not printable.
Settings settings_of_environment();

// Returns HF_HUB_CACHE or HUGGINGFACE_HUB_CACHE, else the folder hub in HF_HOME, else in
// $XDG_CACHE_HOME/huggingface, else in ~/.cache/huggingface. Returns "" if there is no HOME either.
std::string cache_folder();

} // namespace dllm::hub
