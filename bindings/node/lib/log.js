// Where the log lines of the process go.
'use strict';
const raw = require('./raw.js');
const { lib } = require('./library.js');
const { textOf } = require('./call.js');

const LEVELS = { debug: raw.LOG_DEBUG, info: raw.LOG_INFO, warn: raw.LOG_WARN, error: raw.LOG_ERROR };
const SINKS = { none: raw.SINK_NONE, stderr: raw.SINK_STDERR, queue: raw.SINK_QUEUE };

// Sends lines to "none", "stderr" or "queue", which logLines reads.
function logTo(sink, level = 'info') {
  if (!Object.hasOwn(SINKS, sink) || !Object.hasOwn(LEVELS, level)) {
    throw new RangeError(`logTo('${sink}', '${level}'): sinks are ${Object.keys(SINKS).join(', ')}; ` +
      `levels are ${Object.keys(LEVELS).join(', ')}`);
  }
  lib.dllm_log_config(LEVELS[level], SINKS[sink]);
}

// Removes all {level, line} from the queue, oldest first.
function logLines() {
  const names = new Map(Object.entries(LEVELS).map(([name, number]) => [number, name]));
  const buffer = lib.dllm_buffer_new();
  const level = new Int32Array(1);
  const lines = [];
  try {
    while (lib.dllm_log_next(buffer, level)) lines.push({ level: names.get(level[0]), line: textOf(buffer) });
  } finally {
    lib.dllm_buffer_release(buffer);
  }
  return lines;
}

module.exports = { logLines, logTo };
