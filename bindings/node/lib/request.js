// The request of a text.
'use strict';
const { CONTROL } = require('./given.js');
const { options } = require('./options.js');
const { shown } = require('./values.js');

// The settings of a request with a text. They cannot have a second one.
function requestOf(key, given, settings) {
  for (const other of ['prompt', 'messages', 'infill']) {
    if (settings[other] !== undefined) throw new TypeError(`the text is the first argument here, not the setting ${other}`);
  }
  return { ...settings, [key]: given };
}

function promptOf(prompt, settings) {
  if (typeof prompt === 'string') return requestOf('prompt', prompt, settings);
  if (Array.isArray(prompt)) return requestOf('messages', prompt, settings);
  throw new TypeError(`a prompt is a text or a list of messages, not ${shown(prompt)}`);
}

// Options of a request. Its policy chooses their kind.
function optionsOf(settings) {
  const { policy = 'auto' } = settings;
  return options(policy === 'auto' ? 'request' : `request:${policy}`, settings, CONTROL);
}

module.exports = { optionsOf, promptOf, requestOf };
