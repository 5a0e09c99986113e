// What an editor shows: every exported name and every member of a class in index.d.ts has a comment above it.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const dllm = require('dllm');

const LEAST = 10; // characters of a text
const lines = fs.readFileSync(path.join(__dirname, '../../../bindings/node/index.d.ts'), 'utf8').split('\n');

// The text of the comment that ends in the line above this one.
function textAbove(at) {
  if (!lines[at - 1].trimEnd().endsWith('*/')) return '';
  let first = at - 1;
  while (!lines[first].includes('/**')) first--;
  return lines.slice(first, at).join(' ').replace(/[\s*/]+/g, ' ').trim();
}

test('every declaration has a comment', () => {
  let owner = '';
  const without = [];
  const seen = new Set();
  lines.forEach((line, at) => {
    const head = /^(?:export|declare abstract) (function|class|interface|type|const|namespace) (\w+)/.exec(line);
    const member = /^ {2}(?:static |readonly |export function )*(\[Symbol\.\w+\]|\w+)[?(:<]/.exec(line);
    const name = head ? head[2] : owner && member && `${owner}.${member[1]}`;
    if (name) {
      seen.add(name);
      if (textAbove(at).length < LEAST) without.push(name);
    }
    if (head && /class|namespace/.test(head[1]) && !line.endsWith('}')) [, , owner] = head;
    if (line.startsWith('}')) owner = '';
  });
  assert.deepEqual(without, []);
  for (const name of ['load', 'pull', 'Generator.stream', 'Trainer.step', 'Stream.[Symbol.asyncIterator]', 'hub.verify']) {
    assert.ok(seen.has(name), name);
  }
});

test('every export is declared', () => {
  const declared = new Set(lines.map((line) => /^export \w+ (\w+)/.exec(line)?.[1]));
  assert.deepEqual(Object.keys(dllm).filter((name) => !declared.has(name)), []);
});
