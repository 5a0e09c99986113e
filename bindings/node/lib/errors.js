// What a call that failed throws.
'use strict';
const raw = require('./raw.js');
const { lib } = require('./library.js');

// A failed call: `code` is the status by name ('NOT_FOUND'), `status` its number, `hint` what to try.
class DllmError extends Error {
  constructor(message, { status = raw.UNKNOWN, hint = '' } = {}) {
    super(hint ? `${message}\n${hint}` : message);
    this.name = 'DllmError';
    this.status = status;
    this.code = lib.dllm_status_name(status).toUpperCase();
    this.hint = hint;
  }
}

// An object was used after close().
class ClosedError extends Error {
  constructor(noun) {
    super(`this ${noun} is closed`);
    this.name = 'ClosedError';
    this.code = 'CLOSED';
  }
}

// Handles of dllm_error: one a running call, since each has a thread of its own.
const idle = [];
const takeError = () => idle.pop() ?? lib.dllm_error_new();
const putError = (pointer) => idle.push(pointer);

// The error of a status that a call with this handle just returned.
function fromStatus(status, pointer) {
  if (lib.dllm_error_code(pointer) !== status) return new DllmError(lib.dllm_status_name(status), { status });
  return new DllmError(lib.dllm_error_message(pointer), { status, hint: lib.dllm_error_hint(pointer) });
}

module.exports = { DllmError, ClosedError, takeError, putError, fromStatus };
