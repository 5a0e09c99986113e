// Requests of many callers, which one model answers.
'use strict';
const { TASK, call, json, make, start, startWhole, text } = require('./call.js');
const { CONTROL, split } = require('./given.js');
const { keysOf, loaded } = require('./loading.js');
const { Managed, adopt } = require('./managed.js');
const { Model } = require('./model.js');
const { options } = require('./options.js');
const { optionsOf, promptOf } = require('./request.js');
const { Ticket } = require('./ticket.js');
const { Tokenizer } = require('./tokenizer.js');

// What runs on when nobody waits any more ends after this time.
const PATIENCE = 1000; // milliseconds

// The version of each queue that the last wait saw, and the wait that runs. All tickets wait with one worker thread: Node has
// few.
const waits = new WeakMap();

// Resolves after a change of any request since the last change that was seen here.
function changed(queue) {
  if (!waits.has(queue)) waits.set(queue, { version: new BigInt64Array(1), running: null });
  const state = waits.get(queue);
  state.running ??= start('dllm_queue_wait', [queue, -1, PATIENCE, TASK, state.version, null])
    .catch(() => {}) // each ticket finds the error when it looks again
    .finally(() => { state.running = null; });
  return state.running;
}

// The version of a request now, and whether it is over.
function look(queue, number) {
  const [version, over] = [new BigInt64Array(1), new BigInt64Array(1)];
  call('dllm_queue_wait', queue, number, 0, null, version, over);
  return { version: Number(version[0]), isOver: over[0] !== 0n };
}

// A model that decodes the requests of many callers, on a thread of its own. Its calls do not wait for each other.
class Queue extends Managed {
  static noun = 'queue';
  static release = 'dllm_queue_release';

  // settings: the options of kind "queue": slots, waiting, kept, policy, ...
  constructor(model, tokenizer, settings) {
    super(make('dllm_queue_new', model, tokenizer, options('queue', settings)));
  }

  // Loads a model with its tokenizer, as load does; settings are those of kinds "model" and "queue".
  static load(path, given) {
    return loaded(Queue, 'dllm_queue_load', path, given);
  }

  // Submits a request and resolves to its ticket. Without a prompt a setting has the text, such as infill. Settings are those
  // of generator.add, and priority, client and timeout. signal and task end this call, not the request.
  async submit(prompt, given) {
    const [control, settings] = split(given, CONTROL);
    const [own, request] = split(prompt === undefined ? settings : promptOf(prompt, settings), [...keysOf('submission')]);
    const args = [this, optionsOf(request), options('submission', own), TASK];
    const number = await startWhole('dllm_queue_submit', args, control);
    return new Ticket({
      number,
      changed: () => changed(this),
      look: () => look(this, number),
      text: (part) => text('dllm_queue_text', this, number, part),
      describe: () => json('dllm_queue_describe', this, number),
      cancel: () => call('dllm_queue_cancel', this, number),
      remove: () => this.closed || call('dllm_queue_remove', this, number),
    });
  }

  // Decodes one request together with the requests of other callers, and removes it.
  async generate(prompt, given) {
    const [control] = split(given, CONTROL);
    const ticket = await this.submit(prompt, given);
    try {
      return await ticket.generation(control);
    } finally {
      ticket.close();
    }
  }

  // The queue: slots, waiting, decoding, over, totals, ...
  describe() {
    return json('dllm_queue_describe', this, -1);
  }

  // Takes no further requests, and resolves when all are over.
  drain(control) {
    return start('dllm_queue_drain', [this, TASK], control);
  }

  model() {
    return adopt(Model, make('dllm_queue_model', this));
  }

  tokenizer() {
    return adopt(Tokenizer, make('dllm_queue_tokenizer', this));
  }
}

module.exports = { Queue };
