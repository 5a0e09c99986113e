// The answer of a request for text.
'use strict';

// The text with the numbers of its request; String() of it is the text.
class Generation {
  // about: what dllm_generator_describe describes.
  constructor(about) {
    this.text = about.completion; // the answer; of a text with holes: the whole text
    this.whole = about.text; // the prompt and the answer
    this.finish = about.finish; // full, end_token, stop_text or incomplete
    this.promptTokens = about.prompt_tokens;
    this.completionTokens = about.completion_tokens;
    this.steps = about.steps;
    this.nfe = about.nfe; // passes of the model
    this.policy = about.policy;
    this.seed = about.seed;
    this.ids = about.ids; // one token id per position, prompt included
    this.confidence = about.confidence; // a probability per position, 1 for a given one
    this.holes = about.holes ?? []; // the text of each hole of an infill
    Object.freeze(this);
  }

  toString() {
    return this.text;
  }
}

module.exports = { Generation };
