// Text in, text out.
'use strict';
const { EVENTS, TASK, call, json, make, start, startWhole, text } = require('./call.js');
const { ClosedError, DllmError } = require('./errors.js');
const { CONTROL, split } = require('./given.js');
const { Managed, adopt } = require('./managed.js');
const { options } = require('./options.js');
const { Decoder } = require('./decoder.js');
const { Generation } = require('./generation.js');
const { loaded } = require('./loading.js');
const { Model } = require('./model.js');
const { optionsOf, promptOf, requestOf } = require('./request.js');
const { Stream } = require('./stream.js');
const { Tokenizer } = require('./tokenizer.js');
const { Turns } = require('./turns.js');
const { checkWhole, shown } = require('./values.js');

// Of each generator: the turns of its calls, and the requests of streams that are over and not removed yet.
const states = new WeakMap();

function stateOf(generator) {
  if (!states.has(generator)) states.set(generator, { turns: new Turns(), forgotten: [] });
  return states.get(generator);
}

// Runs the work of a generator after the work that was asked for before it.
const inTurn = (generator, work, control) => stateOf(generator).turns.take(work, control);

// Removes the requests of streams that are over, unless a call runs on the generator.
function removeForgotten(generator) {
  const { forgotten } = stateOf(generator);
  while (forgotten.length > 0 && !generator.closed) {
    try {
      generator.remove(forgotten.at(-1));
    } catch (problem) {
      if (problem.code === 'FAILED_PRECONDITION') return;
      if (problem.code !== 'NOT_FOUND') throw problem;
    }
    forgotten.pop();
  }
}

// Removes a request at once, or after the calls that run and wait.
function forget(generator, request) {
  stateOf(generator).forgotten.push(request);
  inTurn(generator, () => removeForgotten(generator));
}

// The error of a generator without a free slot says what frees one here.
function ofSlots(problem) {
  if (problem.code !== 'RESOURCE_EXHAUSTED' || !problem.hint.startsWith('remove finished requests')) return problem;
  return new DllmError(problem.message.split('\n')[0], { status: problem.status,
    hint: 'await stream.return() for a stream that was left, remove the requests of add, or raise option slots' });
}

// Results that a batch does not have, but throws: they are not those of one prompt.
const ofAllPrompts = (problem) => !(problem instanceof DllmError)
  || ['NOT_FOUND', 'CANCELLED', 'DEADLINE_EXCEEDED'].includes(problem.code);

function resultOf(generator, number) {
  try {
    generator.text(number);
  } catch (problem) {
    if (problem instanceof ClosedError) throw problem;
    return problem;
  }
  return new Generation(generator.describe(number));
}

// Decodes one request and removes it.
function answer(generator, request, control) {
  return inTurn(generator, async () => {
    const number = await generator.add({ ...request, ...control });
    let result;
    try {
      await generator.run(control);
      result = resultOf(generator, number);
    } finally {
      if (!generator.closed) generator.remove(number);
    }
    if (result instanceof DllmError) throw result;
    return result;
  }, control);
}

// Adds as many of the requests as there are slots. One that cannot be added has its error in the list `added`.
async function addSome(generator, requests, control, added) {
  for (const request of requests) {
    try {
      added.push(await generator.add({ ...request, ...control }));
    } catch (problem) {
      if (ofAllPrompts(problem)) throw problem;
      // The slots of the requests before this one are free after the run.
      if (problem.code === 'RESOURCE_EXHAUSTED' && added.some(Number.isInteger)) return;
      added.push(problem);
    }
  }
}

// Decodes as many of the requests as there are slots; the results of these.
async function decodeSome(generator, requests, control) {
  const added = [];
  try {
    await addSome(generator, requests, control, added);
    await generator.run(control);
    return added.map((number) => (Number.isInteger(number) ? resultOf(generator, number) : number));
  } finally {
    if (!generator.closed) added.filter(Number.isInteger).forEach((number) => generator.remove(number));
  }
}

// Loads a model with its tokenizer. engine: an Engine, or the settings of a new one; the other settings are those of kinds
// "model" and "generator".
const load = (path, given) => loaded(Generator, 'dllm_generator_load', path, given);

// A model, its tokenizer and the requests that are decoded together. generate, infill, stream and batch of one generator
// wait for each other, until their signal or task ends the wait; the other calls do not wait.
class Generator extends Managed {
  static noun = 'generator';
  static release = 'dllm_generator_release';

  // settings: the options of kind "generator": policy, defaults, slots, trace.
  constructor(model, tokenizer, settings) {
    super(make('dllm_generator_new', model, tokenizer, options('generator', settings)));
  }

  // Continues a text, or a conversation [{role, content}]. settings: the options of kind "request", and those of its
  // policy: length, steps, seed, temperature, stop, ...
  async generate(prompt = '', given) {
    const [control, settings] = split(given, CONTROL);
    return answer(this, promptOf(prompt, settings), control);
  }

  // Fills the holes of a text: <mask:N> is N open tokens, <mask> is one. The text of the result is the whole text.
  async infill(holes, given) {
    if (typeof holes !== 'string') throw new TypeError(`infill takes a text with holes, not ${shown(holes)}`);
    const [control, settings] = split(given, CONTROL);
    return answer(this, requestOf('infill', holes, settings), control);
  }

  // for await (const piece of generator.stream('Hi')): the pieces of a text while it is decided, one for each step.
  stream(prompt = '', given) {
    const [control, settings] = split(given, CONTROL);
    const request = promptOf(prompt, settings);
    return new Stream({
      add: () => inTurn(this, () => this.add({ ...request, ...control }), control),
      step: (number) => inTurn(this, async () => {
        await this.step(control);
        return { text: this.text(number, 'next'), canvas: this.text(number, 'canvas'), about: this.describe(number) };
      }, control),
      forget: (number) => forget(this, number),
    });
  }

  // Decodes several prompts together. Resolves to a Generation or a DllmError for each; an error of one prompt does not end
  // the others. Prompt number i has the seed seed + i. Rejects with what concerns all prompts: an unknown setting, a cancel.
  async batch(prompts, given) {
    if (!Array.isArray(prompts)) throw new TypeError(`batch takes a list of prompts, not ${shown(prompts)}`);
    const [control, { seed = 0, ...settings }] = split(given, CONTROL);
    checkWhole(seed, 'option seed');
    const requests = prompts.map((prompt, at) => promptOf(prompt, { ...settings, seed: BigInt(seed) + BigInt(at) }));
    return inTurn(this, async () => {
      const results = [];
      while (results.length < requests.length) {
        results.push(...await decodeSome(this, requests.slice(results.length), control));
      }
      return results;
    }, control);
  }

  // Adds a request and resolves to its number. One of prompt, messages and infill is its text.
  async add(given) {
    removeForgotten(this);
    const [control, settings] = split(given, CONTROL);
    try {
      return await startWhole('dllm_generator_add', [this, optionsOf(settings), TASK], control);
    } catch (problem) {
      throw ofSlots(problem);
    }
  }

  // Removes a request, open or over. Its number may be used again.
  remove(number) {
    call('dllm_generator_remove', this, number);
  }

  // One denoising step of every open request; how many are open.
  step(control) {
    return startWhole('dllm_generator_step', [this, TASK], control);
  }

  // Steps until no request is open; onEvent gets the events "text" and "answer" and may return STOP.
  run(control) {
    return start('dllm_generator_run', [this, ...EVENTS, TASK], control);
  }

  // A part of a text: completion, text (with the prompt), next (what is new since the last call) or canvas (with <mask:N>
  // for open positions). Throws the error of a request that failed.
  text(number, part = 'completion') {
    return text('dllm_generator_text', this, number, part);
  }

  // A request: finish, error, ids, states, from_file, ...; -1: the generator.
  describe(number = -1) {
    return json('dllm_generator_describe', this, number);
  }

  // The decoder, for its readers. Its slots have the numbers of the requests.
  decoder() {
    return adopt(Decoder, make('dllm_generator_decoder', this));
  }

  model() {
    return adopt(Model, make('dllm_generator_model', this));
  }

  tokenizer() {
    return adopt(Tokenizer, make('dllm_generator_tokenizer', this));
  }
}

module.exports = { Generator, load };
