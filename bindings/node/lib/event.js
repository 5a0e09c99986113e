// Events, and the one trampoline that calls the host's functions.
'use strict';
const koffi = require('koffi');
const raw = require('./raw.js');
const { lib } = require('./library.js');
const { fromStatus, putError, takeError } = require('./errors.js');

const EventFn = koffi.proto('int32', ['void *', 'void *']);
const KINDS = new Map(Object.entries(raw).filter(([name]) => name.startsWith('EVENT_'))
  .map(([name, number]) => [number, name.slice('EVENT_'.length).toLowerCase()]));
const callbacks = new Map();
let nextId = 1n;
let registered = null;

// The event as a plain object: kind, and the keys of dllm/event.h.
function described(event) {
  const buffer = lib.dllm_buffer_new();
  const error = takeError();
  try {
    const status = lib.dllm_event_describe(event, buffer, error);
    if (status !== raw.OK) throw fromStatus(status, error);
    const bytes = koffi.view(lib.dllm_buffer_data(buffer), lib.dllm_buffer_size(buffer));
    const { event: _, ...values } = JSON.parse(Buffer.from(bytes).toString());
    return { kind: KINDS.get(lib.dllm_event_kind(event)), ...values };
  } finally {
    putError(error);
    lib.dllm_buffer_release(buffer);
  }
}

// Runs on the main thread while the worker thread waits for the answer.
function answer(event, id) {
  const parked = callbacks.get(id);
  try {
    const said = parked.enter(() => parked.fn(described(event)));
    if (typeof said?.then === 'function') {
      throw new TypeError('onEvent returned a Promise: it is called between two steps and cannot be awaited');
    }
    return said === undefined || said === null ? raw.CONTINUE : Number(said);
  } catch (reason) {
    parked.failed = true;
    parked.reason = reason;
    return raw.FAIL;
  }
}

function trampoline() {
  registered ??= koffi.register(answer, koffi.pointer(EventFn));
  return registered;
}

// Keeps a function for the time of one call. What it throws is in reason once failed is true.
function park(fn, enter) {
  if (typeof fn !== 'function') throw new TypeError(`onEvent is no function: ${fn}`);
  const id = nextId++;
  const parked = { id, fn, enter, failed: false, reason: undefined, end: () => callbacks.delete(id) };
  callbacks.set(id, parked);
  return parked;
}

module.exports = { park, trampoline };
