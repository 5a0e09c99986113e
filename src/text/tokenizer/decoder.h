#pragma once
// Joins the texts of tokens as the "decoder" part of tokenizer.json says.

#include "text/json_reader.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::text {

// A TokenDecoder, the "decoder" part of tokenizer.json, turns the texts of tokens into text.
class TokenDecoder {
public:
  virtual ~TokenDecoder() = default;
  // Changes the texts of all tokens so that their concatenation is the text. raw: keeps bytes that
  // do not make a character, so that a stream can wait for the rest of the character.
  virtual void apply(std::vector<std::string>& tokens, bool raw) const = 0;
};

// Returns a null pointer for JSON null; the caller then joins tokens with spaces. Fails with
// unimplemented for an unknown type.
std::unique_ptr<TokenDecoder> read_decoder(const TreeJson& json, const std::string& where);

} // namespace dllm::text
