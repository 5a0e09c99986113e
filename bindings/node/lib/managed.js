// The base of all objects: one handle each, closed by hand, by `using`, or by the garbage collector.
'use strict';
const { markAsUncloneable = () => {} } = require('node:worker_threads');
const { lib } = require('./library.js');
const { ClosedError } = require('./errors.js');

const STATE = Symbol('state');
const forgotten = new FinalizationRegistry(({ release, pointer }) => lib[release](pointer));

// It may be closed twice; using a closed object throws ClosedError. The library keeps parents alive, so objects may
// be closed in any order, also while a call uses them: the call ends as it would have.
class Managed {
  constructor(pointer) {
    own(this, pointer);
  }

  // For calls of the library; throws when closed.
  get pointer() {
    if (this[STATE].closed) throw new ClosedError(this.constructor.noun);
    return this[STATE].pointer;
  }

  get closed() {
    return this[STATE].closed;
  }

  close() {
    if (this[STATE].closed) return;
    this[STATE].closed = true;
    if (this[STATE].calls === 0) release(this);
  }

  [Symbol.dispose]() {
    this.close();
  }
}

// structuredClone and postMessage refuse the object, from Node 22.10 on. Before, they make an empty object of it.
function own(object, pointer) {
  markAsUncloneable(object);
  Object.defineProperty(object, STATE, { value: { pointer, calls: 0, closed: false } });
  forgotten.register(object, { release: object.constructor.release, pointer }, object);
}

function release(object) {
  forgotten.unregister(object);
  lib[object.constructor.release](object[STATE].pointer);
}

// A call on another thread uses the object: closing it releases the handle when the last such call has ended.
function hold(object) {
  if (object.closed) throw new ClosedError(object.constructor.noun);
  object[STATE].calls++;
}

function unhold(object) {
  if (--object[STATE].calls === 0 && object[STATE].closed) release(object);
}

// An object of a class for a handle that a call returned.
function adopt(type, pointer) {
  const made = Object.create(type.prototype);
  own(made, pointer);
  return made;
}

module.exports = { Managed, adopt, hold, unhold };
