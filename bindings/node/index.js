// Train and decode diffusion language models. Over libdllm by koffi.
'use strict';
const { FINAL, FIXED, MASKED, PROVISIONAL } = require('./lib/raw.js');
const { CONTINUE, STOP } = require('./lib/event.js');
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
const { Generation } = require('./lib/generation.js');
const { Generator, load } = require('./lib/generator.js');
const hub = require('./lib/hub.js');
const { Loader } = require('./lib/loader.js');
const { Lua } = require('./lib/lua.js');
const { Model } = require('./lib/model.js');
const { Objective } = require('./lib/objective.js');
const { describePlugin, plugins } = require('./lib/plugin.js');
const { Queue } = require('./lib/queue.js');
const { Schedule } = require('./lib/schedule.js');
const { Source } = require('./lib/source.js');
const { Stream } = require('./lib/stream.js');
const { Task } = require('./lib/task.js');
const { Tensor } = require('./lib/tensor.js');
const { Ticket } = require('./lib/ticket.js');
const { Tokenizer } = require('./lib/tokenizer.js');
const { Trainer } = require('./lib/trainer.js');

// The keys of a kind of options, with types, defaults, ranges and one sentence each.
const schema = (kind) => json('dllm_options_schema', kind);

module.exports = {
  Answer, Batch, CONTINUE, Checkpoint, ClosedError, Dataset, Decoder, DllmError, Engine, FINAL, FIXED, Generation,
  Generator, Loader, Lua, MASKED, Model, Objective, PROVISIONAL, Queue, STOP, Schedule, Source, Stream, Task, Tensor,
  Ticket, Tokenizer, Trainer, abiVersion, buildInfo, defaultEngine, describePlugin, hasFeature, hub, latestCheckpoint,
  latestCheckpointAsync, load, logLines, logTo, names, plugins, pull: hub.pull, restoreCheckpoint, saveCheckpoint,
  schema, version,
};
