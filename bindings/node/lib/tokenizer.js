// Text to ids and back.
'use strict';
const { lib } = require('./library.js');
const { Address, TASK, call, make, startMake, text: textFrom, textOf } = require('./call.js');
const { CONTROL, plain, split } = require('./given.js');
const { encoded } = require('./json.js');
const { Managed, adopt } = require('./managed.js');
const { divided, options, pathOf } = require('./options.js');
const { listed } = require('./arrays.js');
const { Batch } = require('./batch.js');
const { Source } = require('./source.js');

const asText = (value, name) => (value === undefined || typeof value === 'string' ? value : encoded(value, name));
const bytesOf = (text) => (typeof text === 'string' ? Buffer.from(text) : text);

// The arrays of a one-row batch that a call returned.
function rowOf(pointer, ...names) {
  const row = adopt(Batch, pointer);
  try {
    return names.map((name) => row.get(name));
  } finally {
    row.close();
  }
}

function chatArguments(messages, { tools, variables, ...others }, names) {
  const bytes = Buffer.from(encoded(messages, 'messages'));
  const settings = { ...others, tools: asText(tools, 'tools'), variables: asText(variables, 'variables') };
  return [bytes, bytes.length, options('chat', settings, names)];
}

function conversation(pointer) {
  const [ids, keep] = rowOf(pointer, 'ids', 'keep');
  return { ids, keep };
}

class Tokenizer extends Managed {
  static noun = 'tokenizer';
  static release = 'dllm_tokenizer_release';

  constructor() {
    throw new TypeError('a tokenizer comes from await Tokenizer.load(path) or await Tokenizer.train(dataset)');
  }

  // path: tokenizer.json, a folder that holds one, a run, a GGUF file, or a Source.
  static async load(path, given) {
    const [control, settings] = divided('tokenizer', given, CONTROL);
    return adopt(Tokenizer, path instanceof Source
      ? await startMake('dllm_tokenizer_load_source', [path, settings], control)
      : await startMake('dllm_tokenizer_load_task', [pathOf(path), settings, TASK], control));
  }

  // A byte-level BPE tokenizer of a dataset that was opened without a tokenizer.
  static async train(dataset, given) {
    const [control, settings] = divided('tokenizer_train', given, CONTROL);
    return adopt(Tokenizer, await startMake('dllm_tokenizer_train', [dataset, settings, TASK], control));
  }

  save(path) {
    call('dllm_tokenizer_save', this, pathOf(path));
  }

  get size() {
    return lib.dllm_tokenizer_size(this.pointer);
  }

  // The id of one token by its text, or of "mask", "bos", "eos", "pad".
  id(name) {
    const out = new Int32Array(1);
    call('dllm_tokenizer_id', this, name, out);
    return out[0];
  }

  // An Int32Array. For long texts there is encodeAsync.
  encode(text) {
    const bytes = bytesOf(text);
    return rowOf(make('dllm_tokenizer_encode_task', this, bytes, bytes.length, null), 'ids')[0];
  }

  async encodeAsync(text, control) {
    const bytes = bytesOf(text);
    return rowOf(await startMake('dllm_tokenizer_encode_task', [this, bytes, bytes.length, TASK], control), 'ids')[0];
  }

  // {ids, keep} of a conversation: keep is 0 for text of the assistant. Settings of kind chat; tools and variables
  // may be objects.
  chat(messages, settings) {
    return conversation(make('dllm_tokenizer_chat_task', this, ...chatArguments(messages, plain(settings)), null));
  }

  async chatAsync(messages, given) {
    const [control, settings] = split(given, CONTROL);
    return conversation(await startMake('dllm_tokenizer_chat_task',
      [this, ...chatArguments(messages, settings, CONTROL), TASK], control));
  }

  decode(ids) {
    const values = listed(ids, 'i32', 'ids');
    return textFrom('dllm_tokenizer_decode', this, values, values.length);
  }

  // {text, used}: whole characters only; keep ids from `used` on for the next call.
  decodeStream(ids) {
    const values = listed(ids, 'i32', 'ids');
    const buffer = lib.dllm_buffer_new();
    const used = new BigInt64Array(1);
    try {
      call('dllm_tokenizer_decode_stream', this, values, values.length, new Address(buffer), used);
      return { text: textOf(buffer), used: Number(used[0]) };
    } finally {
      lib.dllm_buffer_release(buffer);
    }
  }
}

module.exports = { Tokenizer };
