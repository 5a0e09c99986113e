// Train and decode diffusion language models. Over libdllm by koffi.
'use strict';
const { CONTINUE, FINAL, FIXED, MASKED, PROVISIONAL, STOP } = require('./lib/raw.js');
const { abiVersion, buildInfo, hasFeature, names, version } = require('./lib/library.js');
const { ClosedError, DllmError } = require('./lib/errors.js');
const { json } = require('./lib/call.js');
const { logLines, logTo } = require('./lib/log.js');
const { Answer } = require('./lib/answer.js');
const { Batch } = require('./lib/batch.js');
const { Checkpoint, latestCheckpoint, latestCheckpointAsync, restoreCheckpoint, saveCheckpoint } = require('./lib/checkpoint.js');
const { Dataset } = require('./lib/dataset.js');
const { Decoder } = require('./lib/decoder.js');
const { Engine, defaultEngine } = require('./lib/engine.js');
const { Loader } = require('./lib/loader.js');
const { Lua } = require('./lib/lua.js');
const { Model } = require('./lib/model.js');
const { Objective } = require('./lib/objective.js');
const { describePlugin, plugins } = require('./lib/plugin.js');
const { Schedule } = require('./lib/schedule.js');
const { Source } = require('./lib/source.js');
const { Task } = require('./lib/task.js');
const { Tensor } = require('./lib/tensor.js');
const { Tokenizer } = require('./lib/tokenizer.js');
const { Trainer } = require('./lib/trainer.js');

// The keys of a kind of options, with types, defaults, ranges and one sentence each.
const schema = (kind) => json('dllm_options_schema', kind);

module.exports = {
  Answer, Batch, CONTINUE, Checkpoint, ClosedError, Dataset, Decoder, DllmError, Engine, FINAL, FIXED, Loader, Lua,
  MASKED, Model, Objective, PROVISIONAL, STOP, Schedule, Source, Task, Tensor, Tokenizer, Trainer, abiVersion, buildInfo,
  defaultEngine, describePlugin, hasFeature, latestCheckpoint, latestCheckpointAsync, logLines, logTo, names, plugins, restoreCheckpoint,
  saveCheckpoint, schema, version,
};
