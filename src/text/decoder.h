#pragma once
// Puts the texts of tokens together again: the "decoder" part of tokenizer.json.

#include "text/json_reader.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::text {

// Works on the texts of all tokens in order.
class TokenDecoder {
public:
  virtual ~TokenDecoder() = default;
  // raw: bytes that make no character are kept, so that a stream can wait for the rest.
  virtual void apply(std::vector<std::string>& tokens, bool raw) const = 0;
};

// null gives a null pointer: tokens are joined with spaces. Fails with unimplemented for an unknown
// type.
std::unique_ptr<TokenDecoder> read_decoder(const TreeJson& json, const std::string& where);

} // namespace dllm::text
