// Calls of the library: at once, or on a worker thread with a Promise.
'use strict';
const raw = require('./raw.js');
const { checkValues, lib, textOf } = require('./library.js');
const { DllmError, fromStatus, putError, takeError } = require('./errors.js');
const { CONTROL, only } = require('./given.js');
const { Managed, hold, unhold } = require('./managed.js');
const { Options } = require('./options.js');
const { Task } = require('./task.js');
const { callWithEvents } = require('./event.js');
const { shown } = require('./values.js');

// The place of the task in the arguments of a long call.
const TASK = Symbol('task');
// The places of a callback and its user data.
const FN = Symbol('callback');
const EVENTS = [FN, null];

// Tasks of the calls that run now. Node ends after its worker threads, so leaving the process cancels them.
const tasks = new Set();
process.on('exit', () => tasks.forEach((task) => task.cancel()));

// Objects that calls run on now, with the number of the call; a function that a callback may call is let through.
const running = new Map();
let inCallback = 0;

function guard(name, objects) {
  const threads = raw.FUNCTIONS[name][2];
  if (threads === 'any' || (threads === 'callback' && inCallback > 0)) return [];
  const used = objects.filter((object, index) => index === 0 || object.constructor.noun === 'loader');
  for (const object of used) {
    if (!running.has(object)) continue;
    throw new DllmError(`${name}: another call runs on this ${object.constructor.noun}`,
      { status: raw.FAILED_PRECONDITION, hint: 'await that call first; one object does one thing at a time' });
  }
  return used;
}

const objectsOf = (args) => args.filter((arg) => arg instanceof Managed && !(arg instanceof Options || arg instanceof Task));

// An address that this package passes on; a number of the caller is not one.
class Address {
  constructor(pointer) {
    this.pointer = pointer;
  }
}

// The values for a function: the pointers of objects, and other arguments as they are.
function valuesOf(name, args) {
  const parameters = raw.FUNCTIONS[name][1];
  return args.map((arg, index) => {
    if (arg instanceof Managed || arg instanceof Address) return arg.pointer;
    if (typeof arg === 'bigint' && parameters[index] === 'void *') {
      throw new TypeError(`${name}: argument ${index + 1} takes an object of dllm, not ${arg}`);
    }
    return arg;
  });
}

function closeOptions(args) {
  for (const arg of args) if (arg instanceof Options) arg.close();
}

// Calls a function whose last parameter is the error. Returns the status when it is OK or `expected`, else throws.
// Options among the arguments are closed.
function attempt(expected, name, args) {
  const error = takeError();
  try {
    guard(name, objectsOf(args));
    const status = lib[name](...valuesOf(name, args), error);
    if (status !== raw.OK && status !== expected) throw fromStatus(status, error);
    return status;
  } finally {
    putError(error);
    closeOptions(args);
  }
}

const call = (name, ...args) => { attempt(raw.OK, name, args); };

// Calls a function whose last parameters are an out handle and the error; returns the handle.
function make(name, ...args) {
  const out = new BigUint64Array(1);
  call(name, ...args, out);
  return out[0];
}

// The control of a call; throws for a signal and a task that are something else. Null is the same as undefined.
function controlOf(control, names = CONTROL) {
  const given = only(control, names);
  const { signal, task, onEvent } = given;
  // A signal of another realm, or of a package, does what one of Node does.
  const isSignal = typeof signal?.throwIfAborted === 'function' && typeof signal.addEventListener === 'function';
  if (!isSignal && (signal ?? null) !== null) throw new TypeError(`signal is an AbortSignal, not ${shown(signal)}`);
  if (!(task instanceof Task) && (task ?? null) !== null) throw new TypeError(`task is a Task, not ${shown(task)}`);
  if (!['undefined', 'function'].includes(typeof onEvent)) throw new TypeError(`onEvent is a function, not ${shown(onEvent)}`);
  return given;
}

// As call, on a worker thread: the event loop goes on. `signal` or `task` cancels it, `onEvent` gets its events;
// what onEvent throws is what the Promise rejects with. No other option is taken.
async function start(name, args, control) {
  const error = takeError();
  let own = null;
  let stoppable = null;
  let signal = null;
  const held = [];
  let used = [];
  const stop = () => stoppable?.cancel();
  try {
    const { task, onEvent, ...rest } = controlOf(control, args.includes(FN) ? [...CONTROL, 'onEvent'] : CONTROL);
    signal = rest.signal;
    own = args.includes(TASK) && !task ? new Task() : null;
    stoppable = task ?? own;
    signal?.throwIfAborted();
    for (const object of [...args.filter((arg) => arg instanceof Managed), ...(task ? [task] : [])]) {
      hold(object);
      held.push(object);
    }
    const values = [...valuesOf(name, args).map((value) => {
      if (value === TASK) return stoppable.pointer;
      return value === FN ? null : value;
    }), error];
    used = guard(name, objectsOf(args));
    for (const object of used) running.set(object, name);
    if (stoppable) tasks.add(stoppable);
    signal?.addEventListener('abort', stop, { once: true });
    if (onEvent) checkValues(name, values); // an error of the other thread would end it
    const status = await (onEvent
      ? callWithEvents(name, values, args.indexOf(FN), (event) => enter(() => onEvent(event)))
      : new Promise((resolve, reject) => {
        lib[name].async(...values, (problem, result) => (problem ? reject(problem) : resolve(result)));
      }));
    if (status === raw.CANCELLED && signal?.aborted) throw signal.reason;
    if (status !== raw.OK) throw fromStatus(status, error);
  } finally {
    signal?.removeEventListener('abort', stop);
    for (const object of used) running.delete(object);
    tasks.delete(stoppable);
    putError(error);
    held.forEach(unhold); // the arguments stay reachable until here
    own?.close();
    closeOptions(args);
  }
}

// As make, on a worker thread.
async function startMake(name, args, control) {
  const out = new BigUint64Array(1);
  await start(name, [...args, out], control);
  return out[0];
}

// Runs a callback of the host between steps.
function enter(run) {
  inCallback++;
  try {
    return run();
  } finally {
    inCallback--;
  }
}

// Calls a function whose last parameters are a buffer and the error; returns the text.
function text(name, ...args) {
  const buffer = lib.dllm_buffer_new();
  try {
    call(name, ...args, new Address(buffer));
    return textOf(buffer);
  } finally {
    lib.dllm_buffer_release(buffer);
  }
}

async function startText(name, args, control) {
  const buffer = lib.dllm_buffer_new();
  try {
    await start(name, [...args, new Address(buffer)], control);
    return textOf(buffer);
  } finally {
    lib.dllm_buffer_release(buffer);
  }
}

const json = (name, ...args) => JSON.parse(text(name, ...args));

// A function whose last parameter before the error is one number.
function real(name, ...args) {
  const out = new Float64Array(1);
  call(name, ...args, out);
  return out[0];
}

function whole(name, ...args) {
  const out = new BigInt64Array(1);
  call(name, ...args, out);
  return Number(out[0]);
}

async function startReal(name, args, control) {
  const out = new Float64Array(1);
  await start(name, [...args, out], control);
  return out[0];
}

async function startWhole(name, args, control) {
  const out = new BigInt64Array(1);
  await start(name, [...args, out], control);
  return Number(out[0]);
}

module.exports = {
  Address, EVENTS, TASK, attempt, call, controlOf, json, make, real, start, startMake, startReal, startText, startWhole, text,
  textOf, whole,
};
