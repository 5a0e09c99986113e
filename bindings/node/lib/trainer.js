// Train a model.
'use strict';
const { EVENTS, TASK, call, json, make, real, start, startReal } = require('./call.js');
const { CONTROL, only } = require('./given.js');
const { Managed, adopt } = require('./managed.js');
const { options, pathOf } = require('./options.js');
const { asBatch } = require('./batch.js');
const { Model } = require('./model.js');
const { checkWhole } = require('./values.js');

class Trainer extends Managed {
  static noun = 'trainer';
  static release = 'dllm_trainer_release';

  // settings: the options of kind "trainer": lr, optimizer, clip, ...
  constructor(model, objective, settings) {
    super(make('dllm_trainer_new', model, objective, options('trainer', settings)));
  }

  // One optimizer step; the loss before the update, in nats.
  async step(rows, control) {
    return startReal('dllm_trainer_step', [this, asBatch(rows), TASK], control);
  }

  async accumulate(rows, control) {
    return start('dllm_trainer_accumulate', [this, asBatch(rows), TASK], control);
  }

  // Updates with the gradients summed by accumulate; their mean loss.
  apply(control) {
    return startReal('dllm_trainer_apply', [this, TASK], control);
  }

  // Waits for steps and saves in flight.
  sync() {
    return start('dllm_trainer_sync', [this]);
  }

  // Takes many steps; onEvent gets every event between two steps and may return STOP.
  run(loader, steps, control) {
    return start('dllm_trainer_run', [this, loader, steps, ...EVENTS, TASK], control);
  }

  // The mean loss over batches, in nats; nothing is changed but the loader's position.
  async eval(loader, given) {
    const { batches = 8, ...control } = only(given, ['batches', ...CONTROL]);
    checkWhole(batches, 'option batches');
    return startReal('dllm_trainer_eval', [this, loader, batches, TASK], control);
  }

  metric(key) {
    return real('dllm_trainer_metric', this, key);
  }

  describe() {
    return json('dllm_trainer_describe', this);
  }

  // Changes "lr", "weight_decay" or "clip" between steps.
  set(key, value) {
    call('dllm_trainer_set_f64', this, key, value);
  }

  // Writes every event to a "jsonl" or "csv" file, a "tensorboard" folder or the "console".
  addSink(kind, target = null, settings) {
    call('dllm_trainer_add_sink', this, kind, target === null ? null : pathOf(target), options('sink', settings));
  }

  // The model in a role: "live", or "ema", its moving average.
  model(role = 'live') {
    return adopt(Model, make('dllm_trainer_model', this, role));
  }
}

module.exports = { Trainer };
