// Decode text step by step.
'use strict';
const { EVENTS, TASK, call, json, make, real, start, startWhole, text } = require('./call.js');
const { only, plain } = require('./given.js');
const { Managed, adopt } = require('./managed.js');
const { divided, options } = require('./options.js');
const { checkWhole } = require('./values.js');
const { ask, listed } = require('./arrays.js');
const { Batch } = require('./batch.js');

class Decoder extends Managed {
  static noun = 'decoder';
  static release = 'dllm_decoder_release';

  // settings: the options of kind "decoder": steps, gen_length, policy, temperature, ...
  constructor(model, settings) {
    const { policy } = plain(settings);
    const kind = policy ? `decoder:${policy}` : 'decoder';
    super(make('dllm_decoder_new', model, options(kind, settings)));
  }

  // Removes all requests and starts one in slot 0: the prompt, then gen_length open positions.
  start(prompt = [], given) {
    const { seed = 0 } = only(given, ['seed']);
    checkWhole(seed, 'option seed');
    const ids = listed(prompt, 'i32', 'prompt');
    call('dllm_decoder_start', this, ids, ids.length, seed);
  }

  // Adds a request with a given canvas (fixed 1: given, 0: open); returns its slot.
  add(canvas, given) {
    const [{ fixed }, settings] = divided('slot', given, ['fixed']);
    const ids = listed(canvas, 'i32', 'canvas');
    const states = fixed === undefined ? null : listed(fixed, 'u8', 'fixed');
    if (states !== null && states.length !== ids.length) {
      throw new RangeError(`canvas has ${ids.length} positions, fixed ${states.length}`);
    }
    const slot = new BigInt64Array(1);
    call('dllm_decoder_add', this, ids, states, ids.length, settings, slot);
    return Number(slot[0]);
  }

  remove(slot) {
    call('dllm_decoder_remove', this, slot);
  }

  // One denoising step of every active slot; how many still have open positions.
  step(control) {
    return startWhole('dllm_decoder_step', [this, TASK], control);
  }

  // Runs steps for this many milliseconds; it may end inside a step, which the next call continues.
  stepFor(milliseconds, control) {
    return startWhole('dllm_decoder_step_for', [this, milliseconds, ...EVENTS, TASK], control);
  }

  // for await (const active of decoder.steps()): steps until everything is decided.
  async* steps(control) {
    for (let active = 1; active > 0;) {
      active = await this.step(control);
      yield active;
    }
  }

  // Steps until everything is decided; onEvent gets every event and may return STOP.
  run(control) {
    return start('dllm_decoder_run', [this, ...EVENTS, TASK], control);
  }

  // Runs the model for the next step and decides nothing: see statistics and commit.
  predict(control) {
    return start('dllmx_decoder_predict', [this, TASK], control);
  }

  // The predictions: positions, token, probability, argmax, entropy, top_ids, ...
  statistics(slot = 0) {
    return adopt(Batch, make('dllmx_decoder_statistics', this, slot));
  }

  // Decides these positions and ends the slot's step.
  commit(slot, positions, ids) {
    const where = listed(positions, 'i64', 'positions');
    const tokens = listed(ids, 'i32', 'ids');
    if (where.length !== tokens.length) throw new RangeError(`${where.length} positions, ${tokens.length} ids`);
    call('dllmx_decoder_commit', this, slot, where, tokens, where.length);
  }

  // The canvas: prompt and answer, the mask id where a position is open.
  ids(slot = 0) {
    return ask('dllm_decoder_ids', 'i32', this, slot);
  }

  // MASKED, PROVISIONAL, FINAL or FIXED for every position.
  states(slot = 0) {
    return ask('dllm_decoder_states', 'u8', this, slot);
  }

  confidence(slot = 0) {
    return ask('dllm_decoder_confidence', 'f32', this, slot);
  }

  metric(key, slot = -1) {
    return real('dllm_decoder_metric', this, slot, key);
  }

  // The trace, one object per step: step, ids, states, confidence. The decoder is made with trace: true.
  trace(slot = 0) {
    return text('dllm_decoder_trace', this, slot).split('\n').filter(Boolean).map((line) => JSON.parse(line));
  }

  describe() {
    return json('dllm_decoder_describe', this);
  }
}

module.exports = { Decoder };
