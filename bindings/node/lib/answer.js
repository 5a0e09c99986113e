// The text of a canvas while it is decided.
'use strict';
const raw = require('./raw.js');
const { lib } = require('./library.js');
const { Address, call, make, text, textOf } = require('./call.js');
const { Managed } = require('./managed.js');
const { options } = require('./options.js');
const { ask, listed } = require('./arrays.js');

const ENDS = { [raw.ANSWER_FULL]: 'full', [raw.ANSWER_END_TOKEN]: 'end_token', [raw.ANSWER_STOP_TEXT]: 'stop_text' };

class Answer extends Managed {
  static noun = 'answer';
  static release = 'dllm_answer_release';

  // settings: the options of kind "answer": begin, prompt, end_tokens, stop, stop_texts, stop_pattern.
  constructor(tokenizer, settings) {
    super(make('dllm_answer_new', tokenizer, options('answer', settings)));
  }

  // The canvas now, as of decoder.ids and decoder.states. Returns null, or why the answer is over: "full",
  // "end_token", "stop_text".
  update(ids, states) {
    const tokens = listed(ids, 'i32', 'ids');
    const kinds = listed(states, 'u8', 'states');
    if (tokens.length !== kinds.length) throw new RangeError(`${tokens.length} ids, ${kinds.length} states`);
    const end = new Int32Array(1);
    call('dllm_answer_update', this, tokens, kinds, tokens.length, end);
    return ENDS[end[0]] ?? null;
  }

  // The text up to the first masked position or the end of the answer.
  text() {
    return text('dllm_answer_text', this);
  }

  // The final text that is new since the last call.
  next() {
    return text('dllm_answer_next', this);
  }

  // One text per position of the canvas.
  cells() {
    const buffer = lib.dllm_buffer_new();
    try {
      const ends = ask('dllm_answer_cells', 'i64', this, new Address(buffer));
      const bytes = Buffer.from(textOf(buffer));
      return Array.from(ends, (end, index) => bytes.toString('utf8', index ? Number(ends[index - 1]) : 0, Number(end)));
    } finally {
      lib.dllm_buffer_release(buffer);
    }
  }
}

module.exports = { Answer };
