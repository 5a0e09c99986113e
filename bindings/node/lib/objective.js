// How a batch is corrupted and how the loss is computed.
'use strict';
const { TASK, make, startMake, startReal } = require('./call.js');
const { Managed, adopt } = require('./managed.js');
const { options } = require('./options.js');
const { Batch, asBatch } = require('./batch.js');

class Objective extends Managed {
  static noun = 'objective';
  static release = 'dllm_objective_release';

  // new Objective('mdlm'); names('objective') lists them. schedule: a Schedule.
  constructor(name, { schedule = null, ...settings } = {}) {
    super(make('dllm_objective_new', name, schedule, options(`objective:${name}`, settings)));
  }

  // Draws the noise of one step: ids with masks, targets, weights. model: its mask token, shift and vocabulary are
  // used; without one they are options of the objective.
  async prepare(rows, { seed = 0, step = 0, model = null } = {}) {
    return adopt(Batch, await startMake('dllm_objective_prepare', [this, model, asBatch(rows), seed, step]));
  }

  // The loss of one batch in nats; nothing is changed.
  loss(model, rows, { seed = 0, signal, task } = {}) {
    return startReal('dllm_objective_loss', [this, model, asBatch(rows), seed, TASK], { signal, task });
  }

  // The loss of every row for itself: arrays "sums" in nats and "counts" (trained tokens).
  async rowLosses(model, rows, { seed = 0, signal, task } = {}) {
    return adopt(Batch, await startMake('dllm_objective_row_losses', [this, model, asBatch(rows), seed, TASK], { signal, task }));
  }
}

module.exports = { Objective };
