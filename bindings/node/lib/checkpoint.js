// Save a training run, resume it, read its tensors.
'use strict';
const { TASK, json, make, start, startMake, startText, text } = require('./call.js');
const { encoded } = require('./json.js');
const { Managed, adopt } = require('./managed.js');
const { options, pathOf } = require('./options.js');
const { Tensor } = require('./tensor.js');

// Saves all that is needed to resume a run bit for bit; resolves to the new folder. loader may be null; script_state
// is any JSON value.
function saveCheckpoint(trainer, loader, root, { signal, task, script_state: state, ...settings } = {}) {
  const given = { ...settings, script_state: state === undefined ? undefined : encoded(state, 'script_state') };
  return startText('dllm_checkpoint_save', [trainer, loader, pathOf(root), options('checkpoint', given), TASK],
    { signal, task });
}

// Restores trainer, model and loader.
function restoreCheckpoint(trainer, loader, folder, { signal, task } = {}) {
  return start('dllm_checkpoint_restore', [trainer, loader, pathOf(folder), TASK], { signal, task });
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
function latestCheckpointAsync(root, { signal, task } = {}) {
  return startText('dllm_checkpoint_latest_task', [pathOf(root), TASK], { signal, task }).catch(nullIfNotFound);
}

// Weights to look into: a checkpoint, a model folder, a safetensors or GGUF file.
class Checkpoint extends Managed {
  static noun = 'checkpoint';
  static release = 'dllm_checkpoint_release';

  constructor(path) {
    super(make('dllm_checkpoint_open', pathOf(path)));
  }

  // The same for object stores, which may take long to answer.
  static async open(path, { signal, task } = {}) {
    return adopt(Checkpoint, await startMake('dllm_checkpoint_open_task', [pathOf(path), TASK], { signal, task }));
  }

  describe() {
    return json('dllm_checkpoint_describe', this);
  }

  tensor(name) {
    return adopt(Tensor, make('dllm_checkpoint_tensor', this, name));
  }

  // Reads every byte and compares sizes and checksums; rejects with DATA_LOSS for a bad file.
  verify({ signal, task } = {}) {
    return start('dllm_checkpoint_verify', [this, TASK], { signal, task });
  }
}

module.exports = { Checkpoint, latestCheckpoint, latestCheckpointAsync, restoreCheckpoint, saveCheckpoint };
