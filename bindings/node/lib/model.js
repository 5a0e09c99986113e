// Load, create, run and save a model.
'use strict';
const { lib } = require('./library.js');
const { TASK, call, json, start, startMake, startText, whole } = require('./call.js');
const { encoded } = require('./json.js');
const { Managed, adopt } = require('./managed.js');
const { options, pathOf } = require('./options.js');
const { Batch, asBatch } = require('./batch.js');
const { defaultEngine } = require('./engine.js');
const { Source } = require('./source.js');
const { Tensor } = require('./tensor.js');

class Model extends Managed {
  static noun = 'model';
  static release = 'dllm_model_release';

  constructor() {
    throw new TypeError('a model comes from await Model.load(path) or await Model.create(config)');
  }

  // path: a model folder, a GGUF file, a run or checkpoint folder, or a Source.
  static async load(path, { engine = defaultEngine(), signal, task, ...settings } = {}) {
    const [name, from] = path instanceof Source ? ['dllm_model_load_source', path] : ['dllm_model_load', pathOf(path)];
    return adopt(Model, await startMake(name, [engine, from, options('model', settings), TASK], { signal, task }));
  }

  // A model with random weights; config is the content of a config.json.
  static async create(config, { engine = defaultEngine(), signal, task, ...settings } = {}) {
    const text = Buffer.from(encoded(config));
    return adopt(Model, await startMake('dllm_model_new',
      [engine, text, text.length, options('model', settings), TASK], { signal, task }));
  }

  // Writes a model in another weight format: a .gguf file, or a folder. Resolves to the report.
  static async quantize(path, target, { signal, task, ...settings } = {}) {
    return JSON.parse(await startText('dllm_model_quantize',
      [pathOf(path), pathOf(target), options('quantize', settings), TASK], { signal, task }));
  }

  save(path, { signal, task, ...settings } = {}) {
    return start('dllm_model_save', [this, pathOf(path), options('save', settings), TASK], { signal, task });
  }

  config() {
    return json('dllm_model_config', this);
  }

  describe() {
    return json('dllm_model_describe', this);
  }

  // A number: vocab hidden layers max_length mask_id params bytes.
  get(key) {
    return whole('dllm_model_i64', this, key);
  }

  get version() {
    return lib.dllm_model_version(this.pointer);
  }

  paramNames() {
    const count = lib.dllm_model_param_count(this.pointer);
    return Array.from({ length: count }, (_, index) => lib.dllm_model_param_name(this.pointer, index));
  }

  // A copy of one parameter; waits for a running training step.
  async param(name) {
    return adopt(Tensor, await startMake('dllm_model_param', [this, name]));
  }

  async setParam(name, value) {
    await start('dllm_model_set_param', [this, name, value instanceof Tensor ? value : new Tensor(value, { dtype: 'f32' })]);
  }

  // Every save and checkpoint then writes the tokenizer too.
  setTokenizer(tokenizer) {
    call('dllm_model_set_tokenizer', this, tokenizer);
  }

  // Runs the model once; the result holds logits (batch, seq, vocab). rows: a Batch, named arrays, or ids.
  async forward(rows, { signal, task, ...settings } = {}) {
    return adopt(Batch, await startMake('dllm_model_forward',
      [this, asBatch(rows), options('forward', settings), TASK], { signal, task }));
  }
}

module.exports = { Model };
