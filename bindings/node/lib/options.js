// Settings: keys and values of one kind, checked by the library.
'use strict';
const { fileURLToPath } = require('node:url');
const raw = require('./raw.js');
const { lib } = require('./library.js');
const { fromStatus, putError, takeError } = require('./errors.js');
const { encoded } = require('./json.js');
const { Managed } = require('./managed.js');

function checked(use) {
  const error = takeError();
  try {
    const status = use(error);
    if (status !== raw.OK) throw fromStatus(status, error);
  } finally {
    putError(error);
  }
}

// JSON has no whole numbers of 64 bits.
function setWhole(options, key, value) {
  if (BigInt.asIntN(64, value) !== value) throw new RangeError(`option ${key} has 64 bits, ${value} has more`);
  checked((error) => lib.dllm_options_set_i64(options.pointer, key, value, error));
}

class Options extends Managed {
  static noun = 'options';
  static release = 'dllm_options_release';

  constructor(kind, settings = {}) {
    const out = new BigUint64Array(1);
    checked((error) => lib.dllm_options_new(kind, out, error));
    super(out[0]);
    const isWhole = ([, value]) => typeof value === 'bigint';
    const entries = Object.entries(settings);
    const others = Object.fromEntries(entries.filter((entry) => !isWhole(entry)));
    try {
      const json = Buffer.from(encoded(others));
      checked((error) => lib.dllm_options_set_json(this.pointer, json, json.length, error));
      for (const [key, value] of entries.filter(isWhole)) setWhole(this, key, value);
    } catch (problem) {
      this.close();
      throw problem;
    }
  }
}

// Options of a plain object, for one call; null when nothing is set. undefined means the default.
function options(kind, settings) {
  const given = Object.entries(settings ?? {}).filter(([, value]) => value !== undefined);
  return given.length ? new Options(kind, Object.fromEntries(given)) : null;
}

// A path as the library takes it: text, or a file: URL.
const pathOf = (path) => (path instanceof URL ? fileURLToPath(path) : String(path));

module.exports = { Options, options, pathOf };
