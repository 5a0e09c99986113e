// The same objects for `import`: one copy of the library's state in a process.
import dllm from './index.js';

export const {
  Answer, Batch, CONTINUE, Checkpoint, ClosedError, Dataset, Decoder, DllmError, Engine, FINAL, FIXED, Loader, Lua,
  MASKED, Model, Objective, PROVISIONAL, STOP, Schedule, Source, Task, Tensor, Tokenizer, Trainer, abiVersion, buildInfo,
  defaultEngine, describePlugin, hasFeature, latestCheckpoint, latestCheckpointAsync, logLines, logTo, names, plugins, restoreCheckpoint,
  saveCheckpoint, schema, version,
} = dllm;
