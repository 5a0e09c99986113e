// Settings: keys and values of one kind, checked by the library.
'use strict';
const { fileURLToPath } = require('node:url');
const raw = require('./raw.js');
const { lib } = require('./library.js');
const { fromStatus, putError, takeError } = require('./errors.js');
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

// A TypedArray among the settings is a list.
const listed = (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);

class Options extends Managed {
  static noun = 'options';
  static release = 'dllm_options_release';

  constructor(kind, settings = {}) {
    const out = new BigUint64Array(1);
    checked((error) => lib.dllm_options_new(kind, out, error));
    super(out[0]);
    const json = Buffer.from(JSON.stringify(settings, listed));
    try {
      checked((error) => lib.dllm_options_set_json(this.pointer, json, json.length, error));
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
