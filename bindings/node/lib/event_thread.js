// The thread of callWithEvents: makes the calls that the main thread sends, asks it about every event, and waits.
'use strict';
const { parentPort, workerData } = require('node:worker_threads');
const { ANSWER, BUSY, ENDING, LOADED, WAITING } = require('./event.js');

const shared = new Int32Array(workerData.shared);

function tell(place, value) {
  Atomics.store(shared, place, value);
  Atomics.notify(shared, place);
}
process.on('exit', () => { // also of a thread that could not load
  tell(LOADED, 1);
  tell(BUSY, 0);
});

const koffi = require('./koffi.js');
const raw = require('./raw.js');
const { lib } = require('./library.js');
const { fromStatus, putError, takeError } = require('./errors.js');

const EventFn = koffi.proto('int32', ['void *', 'void *']);
const KINDS = new Map(Object.entries(raw).filter(([name]) => name.startsWith('EVENT_'))
  .map(([name, number]) => [number, name.slice('EVENT_'.length).toLowerCase()]));

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

const trampoline = koffi.register((event) => {
  if (Atomics.load(shared, ENDING) === 1) return raw.STOP;
  parentPort.postMessage({ event: described(event) });
  Atomics.wait(shared, ANSWER, WAITING);
  return Atomics.exchange(shared, ANSWER, WAITING);
}, koffi.pointer(EventFn));

tell(LOADED, 1);

parentPort.on('message', ({ name, values, callback }) => {
  values[callback] = trampoline;
  const status = lib[name](...values);
  tell(BUSY, 0);
  parentPort.postMessage({ status, outs: [...values.entries()].filter(([, value]) => ArrayBuffer.isView(value)) });
});
