// Load, create, run and save a model.
'use strict';
const { lib } = require('./library.js');
const { TASK, call, json, start, startMake, startText, whole } = require('./call.js');
const { CONTROL, checkObject } = require('./given.js');
const { encoded } = require('./json.js');
const { Managed, adopt } = require('./managed.js');
const { divided, pathOf } = require('./options.js');
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
  static async load(path, given) {
    const [{ engine = defaultEngine(), ...control }, settings] = divided('model', given, ['engine', ...CONTROL]);
    checkObject(engine, 'engine');
    const [name, from] = path instanceof Source ? ['dllm_model_load_source', path] : ['dllm_model_load', pathOf(path)];
    return adopt(Model, await startMake(name, [engine, from, settings, TASK], control));
  }

  // A model with random weights; config is the content of a config.json.
  static async create(config, given) {
    const [{ engine = defaultEngine(), ...control }, settings] = divided('model', given, ['engine', ...CONTROL]);
    checkObject(engine, 'engine');
    const text = Buffer.from(encoded(config));
    return adopt(Model, await startMake('dllm_model_new', [engine, text, text.length, settings, TASK], control));
  }

  // Writes a model in another weight format: a .gguf file, or a folder. Resolves to the report.
  static async quantize(path, target, given) {
    const [control, settings] = divided('quantize', given, CONTROL);
    return JSON.parse(await startText('dllm_model_quantize', [pathOf(path), pathOf(target), settings, TASK], control));
  }

  async save(path, given) {
    const [control, settings] = divided('save', given, CONTROL);
    await start('dllm_model_save', [this, pathOf(path), settings, TASK], control);
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

  // Adds a LoRA adapter, which changes no result until it is trained. A trainer then trains the adapters alone.
  async addAdapter(name = 'default', given) {
    const [control, settings] = divided('adapter', given, CONTROL);
    await start('dllm_model_add_adapter', [this, name, settings, TASK], control);
  }

  // Adds an adapter with the numbers of a folder that PEFT or saveAdapter wrote.
  loadAdapter(path, name = 'default', control) {
    return start('dllm_model_load_adapter', [this, pathOf(path), name, TASK], control);
  }

  saveAdapter(path, name = 'default', control) {
    return start('dllm_model_save_adapter', [this, pathOf(path), name, TASK], control);
  }

  // Adds the product of an adapter to the weights and removes the adapter; null: of every adapter.
  mergeAdapter(name = null, control) {
    return start('dllm_model_merge_adapter', [this, name, TASK], control);
  }

  removeAdapter(name = 'default') {
    call('dllm_model_remove_adapter', this, name);
  }

  // Multiplies the product of an adapter from now on; 0: the adapter is off.
  setAdapterScale(scale, name = 'default') {
    call('dllm_model_set_adapter_scale', this, name, scale);
  }

  // Adds the network of another model of the engine as a part that losses can read.
  addNetwork(other, name = 'teacher') {
    call('dllm_model_add_network', this, other, name);
  }

  removeNetwork(name = 'teacher') {
    call('dllm_model_remove_network', this, name);
  }

  adapters() {
    return json('dllm_model_adapters', this);
  }

  // Runs the model once; the result holds logits (batch, seq, vocab). rows: a Batch, named arrays, or ids.
  // logits[i] predicts token i, also with shift 1, where the state of token i - 1 makes it.
  async forward(rows, given) {
    const [control, settings] = divided('forward', given, CONTROL);
    return adopt(Batch, await startMake('dllm_model_forward', [this, asBatch(rows), settings, TASK], control));
  }
}

module.exports = { Model };
