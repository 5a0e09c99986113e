// How a batch is corrupted and how the loss is computed.
'use strict';
const { TASK, make, startMake, startReal } = require('./call.js');
const { CONTROL, checkObject, only } = require('./given.js');
const { Managed, adopt } = require('./managed.js');
const { divided } = require('./options.js');
const { checkWhole } = require('./values.js');
const { Batch, asBatch } = require('./batch.js');

// The options of a call with a seed.
function seeded(given) {
  const { seed = 0, ...control } = only(given, ['seed', ...CONTROL]);
  checkWhole(seed, 'option seed');
  return [seed, control];
}

class Objective extends Managed {
  static noun = 'objective';
  static release = 'dllm_objective_release';

  // new Objective('mdlm'); names('objective') lists them. schedule: a Schedule.
  constructor(name, given) {
    const [{ schedule = null }, settings] = divided(`objective:${name}`, given, ['schedule']);
    if (schedule !== null) checkObject(schedule, 'schedule');
    super(make('dllm_objective_new', name, schedule, settings));
  }

  // Draws the noise of one step: ids with masks, targets, weights. model: its mask token, shift and vocabulary are
  // used; without one they are options of the objective.
  async prepare(rows, given) {
    const { seed = 0, step = 0, model = null } = only(given, ['seed', 'step', 'model']);
    checkWhole(seed, 'option seed');
    checkWhole(step, 'option step');
    if (model !== null) checkObject(model, 'model');
    return adopt(Batch, await startMake('dllm_objective_prepare', [this, model, asBatch(rows), seed, step]));
  }

  // The loss of one batch in nats; nothing is changed.
  async loss(model, rows, given) {
    const [seed, control] = seeded(given);
    return startReal('dllm_objective_loss', [this, model, asBatch(rows), seed, TASK], control);
  }

  // The loss of every row for itself: arrays "sums" in nats and "counts" (trained tokens).
  async rowLosses(model, rows, given) {
    const [seed, control] = seeded(given);
    return adopt(Batch, await startMake('dllm_objective_row_losses', [this, model, asBatch(rows), seed, TASK], control));
  }
}

module.exports = { Objective };
