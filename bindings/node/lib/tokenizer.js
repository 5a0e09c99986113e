// Text to ids and back.
'use strict';
const { lib } = require('./library.js');
const { Address, TASK, call, make, startMake, text: textFrom, textOf } = require('./call.js');
const { encoded } = require('./json.js');
const { Managed, adopt } = require('./managed.js');
const { options, pathOf } = require('./options.js');
const { typed } = require('./arrays.js');
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

function chatArguments(messages, { tools, variables, ...settings }) {
  const bytes = Buffer.from(encoded(messages, 'messages'));
  return [bytes, bytes.length, options('chat', { ...settings, tools: asText(tools, 'tools'), variables: asText(variables, 'variables') })];
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
  static async load(path, { signal, task, ...settings } = {}) {
    const given = options('tokenizer', settings);
    return adopt(Tokenizer, path instanceof Source
      ? await startMake('dllm_tokenizer_load_source', [path, given], { signal })
      : await startMake('dllm_tokenizer_load_task', [pathOf(path), given, TASK], { signal, task }));
  }

  // A byte-level BPE tokenizer of a dataset that was opened without a tokenizer.
  static async train(dataset, { signal, task, ...settings } = {}) {
    return adopt(Tokenizer, await startMake('dllm_tokenizer_train',
      [dataset, options('tokenizer_train', settings), TASK], { signal, task }));
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

  async encodeAsync(text, { signal, task } = {}) {
    const bytes = bytesOf(text);
    return rowOf(await startMake('dllm_tokenizer_encode_task', [this, bytes, bytes.length, TASK], { signal, task }), 'ids')[0];
  }

  // {ids, keep} of a conversation: keep is 0 for text of the assistant. Settings of kind chat; tools and variables
  // may be objects.
  chat(messages, settings = {}) {
    return conversation(make('dllm_tokenizer_chat_task', this, ...chatArguments(messages, settings), null));
  }

  async chatAsync(messages, { signal, task, ...settings } = {}) {
    return conversation(await startMake('dllm_tokenizer_chat_task',
      [this, ...chatArguments(messages, settings), TASK], { signal, task }));
  }

  decode(ids) {
    const values = typed(ids, 'i32');
    return textFrom('dllm_tokenizer_decode', this, values, values.length);
  }

  // {text, used}: whole characters only; keep ids from `used` on for the next call.
  decodeStream(ids) {
    const values = typed(ids, 'i32');
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
