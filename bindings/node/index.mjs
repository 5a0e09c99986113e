// The same objects for `import`: one copy of the library's state in a process.
import dllm from './index.js';

export const {
  Answer, Batch, CONTINUE, Checkpoint, ClosedError, Dataset, Decoder, DllmError, Engine, FINAL, FIXED, Generation,
  Generator, Loader, Lua, MASKED, Model, Objective, PROVISIONAL, Queue, STOP, Schedule, Source, Stream, Task, Tensor,
  Ticket, Tokenizer, Trainer, abiVersion, buildInfo, defaultEngine, describePlugin, hasFeature, hub, latestCheckpoint,
  latestCheckpointAsync, load, logLines, logTo, names, plugins, pull, restoreCheckpoint, saveCheckpoint,
  schema, version,
} = dllm;
