// The devices and threads that compute.
'use strict';
const { lib } = require('./library.js');
const { TASK, call, json, make, startText, whole } = require('./call.js');
const { CONTROL } = require('./given.js');
const { Managed } = require('./managed.js');
const { divided, options, pathOf } = require('./options.js');

class Engine extends Managed {
  static noun = 'engine';
  static release = 'dllm_engine_release';

  // settings: the options of kind "engine": threads, memory_limit, ...
  constructor(settings) {
    super(make('dllm_engine_new', options('engine', settings)));
  }

  devices() {
    const count = lib.dllm_engine_device_count(this.pointer);
    return Array.from({ length: count }, (_, index) => lib.dllm_engine_device_name(this.pointer, index));
  }

  describe() {
    return json('dllm_engine_describe', this);
  }

  get(key) {
    return whole('dllm_engine_i64', this, key);
  }

  set(key, value) {
    call('dllm_engine_set_i64', this, key, value);
  }

  // What a job on a model needs, as text of the chosen format (default JSON).
  async plan(path, given) {
    const [control, settings] = divided('plan', given, CONTROL);
    return startText('dllm_engine_plan', [this, pathOf(path), settings, TASK], control);
  }

  // Frees memory that is not in use.
  trim() {
    call('dllm_engine_trim', this);
  }
}

let shared = null;

// The engine of models that are made without one; made once.
function defaultEngine() {
  if (shared === null || shared.closed) shared = new Engine();
  return shared;
}

module.exports = { Engine, defaultEngine };
