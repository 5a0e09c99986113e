// Save a training run, resume it, read its tensors.
'use strict';
const { TASK, controlOf, json, make, start, startMake, startText, text } = require('./call.js');
const { CONTROL, split } = require('./given.js');
const { encoded } = require('./json.js');
const { Managed, adopt } = require('./managed.js');
const { options, pathOf } = require('./options.js');
const { Tensor } = require('./tensor.js');

// Saves all that is needed to resume a run bit for bit; resolves to the new folder. loader may be null; script_state
// is any JSON value.
async function saveCheckpoint(trainer, loader, root, given) {
  const [control, { script_state: state, ...others }] = split(given, CONTROL);
  const settings = { ...others, script_state: state === undefined ? undefined : encoded(state, 'script_state') };
  return startText('dllm_checkpoint_save', [trainer, loader, pathOf(root), options('checkpoint', settings, CONTROL), TASK],
    control);
}

// Restores trainer, model and loader.
function restoreCheckpoint(trainer, loader, folder, control) {
  return start('dllm_checkpoint_restore', [trainer, loader, pathOf(folder), TASK], control);
}

function nullIfNotFound(problem) {
  if (problem.code === 'NOT_FOUND') return null;
  throw problem;
}

// The folder of a run's highest committed checkpoint, null when there is none.
function latestCheckpoint(root) {
  try {
    return text('dllm_checkpoint_latest', pathOf(root));
  } catch (problem) {
    return nullIfNotFound(problem);
  }
}

// The same for object stores, which may take long to answer.
async function latestCheckpointAsync(root, control) {
  controlOf(control); // here, as NOT_FOUND of an option is an error
  return startText('dllm_checkpoint_latest_task', [pathOf(root), TASK], control).catch(nullIfNotFound);
}

// Weights to look into: a checkpoint, a model folder, a safetensors or GGUF file.
class Checkpoint extends Managed {
  static noun = 'checkpoint';
  static release = 'dllm_checkpoint_release';

  constructor(path) {
    super(make('dllm_checkpoint_open', pathOf(path)));
  }

  // The same for object stores, which may take long to answer.
  static async open(path, control) {
    return adopt(Checkpoint, await startMake('dllm_checkpoint_open_task', [pathOf(path), TASK], control));
  }

  describe() {
    return json('dllm_checkpoint_describe', this);
  }

  tensor(name) {
    return adopt(Tensor, make('dllm_checkpoint_tensor', this, name));
  }

  // Reads every byte and compares sizes and checksums; rejects with DATA_LOSS for a bad file.
  verify(control) {
    return start('dllm_checkpoint_verify', [this, TASK], control);
  }
}

module.exports = { Checkpoint, latestCheckpoint, latestCheckpointAsync, restoreCheckpoint, saveCheckpoint };
