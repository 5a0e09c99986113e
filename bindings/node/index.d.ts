// Types of the package dllm. Names of settings are those of the library: schema(kind) lists them.

export type SettingValue = string | number | boolean | null | undefined | ReadonlyArray<string | number> | Int32Array;
export type Settings = Record<string, unknown>;
export type DType = 'f32' | 'f64' | 'i32' | 'i64' | 'u8' | 'i8' | 'u32';
export type TypedNumbers = Float32Array | Float64Array | Int32Array | BigInt64Array | Uint8Array | Int8Array | Uint32Array;
export type Numbers = TypedNumbers | ReadonlyArray<number | bigint>;
export type Nested = number | bigint | TypedNumbers | readonly Nested[];
export type Path = string | URL;
export interface ArrayForm { dtype?: DType; shape?: readonly number[]; }

/** How a long call is ended early: by a signal (rejects with its reason) or a task (rejects with CANCELLED). */
export interface Control { signal?: AbortSignal; task?: Task; }
/** An event as a plain object; the other keys are those of dllm/event.h. */
export interface Event {
  kind: 'progress' | 'train_step' | 'eval' | 'decode_step' | 'block' | 'checkpoint';
  [key: string]: any;
}
/** Called between two steps. What it throws is what the call rejects with; STOP ends the call without an error. */
export interface Watched extends Control { onEvent?: (event: Event) => number | void; }
export type WithSettings<T> = T & { [setting: string]: SettingValue | T[keyof T] };

export const CONTINUE: 0;
export const STOP: 1;
export const MASKED: 0;
export const PROVISIONAL: 1;
export const FINAL: 2;
export const FIXED: 3;

export function abiVersion(): number;
export function version(): string;
export function buildInfo(): Settings;
export function hasFeature(name: string): boolean;
export function names(kind: string): string[];
export function schema(kind: string): { kind: string; keys: Array<{ name: string; type: string } & Settings> };
export function logTo(sink: 'none' | 'stderr' | 'queue', level?: 'debug' | 'info' | 'warn' | 'error'): void;
export function logLines(): Array<{ level: string; line: string }>;
export function plugins(): Settings[];
export function describePlugin(plugin: Path): Settings;
export function defaultEngine(): Engine;

export class DllmError extends Error {
  /** The status by name, 'NOT_FOUND', and its number. */
  readonly code: string;
  readonly status: number;
  /** What to try. */
  readonly hint: string;
}
export class ClosedError extends Error { readonly code: 'CLOSED'; }

/** One handle of the library, freed by close(), by `using`, or by the garbage collector. */
declare abstract class Managed {
  readonly closed: boolean;
  close(): void;
  [Symbol.dispose](): void;
}

export class Task extends Managed {
  constructor(settings?: { /** milliseconds from now */ deadline?: number });
  cancel(): void;
  readonly cancelled: boolean;
  setDeadline(milliseconds: number | null): void;
  progress(): { done: number; total: number };
}

export class Engine extends Managed {
  constructor(settings?: Settings);
  devices(): string[];
  describe(): Settings;
  get(key: string): number;
  set(key: string, value: number): void;
  plan(path: Path, settings?: WithSettings<Control>): Promise<string>;
  trim(): void;
}

export class Tensor extends Managed {
  constructor(values: Nested, form?: ArrayForm);
  readonly dtype: DType | 'f16' | 'bf16';
  readonly shape: number[];
  read(): TypedNumbers;
  read(dtype: 'f32'): Float32Array;
  read(dtype: DType): TypedNumbers;
}

export class Batch extends Managed {
  constructor(arrays?: Record<string, Nested>);
  set(name: string, values: Nested, form?: ArrayForm): this;
  get(name: string): TypedNumbers;
  tensor(name: string): Tensor;
  readonly size: number;
  names(): string[];
  has(name: string): boolean;
}
/** A batch, named arrays, or ids alone. */
export type Rows = Batch | Record<string, Nested> | Nested[] | TypedNumbers;

export class Source extends Managed {
  constructor(files?: Record<string, string | Uint8Array>);
  add(name: string, data: string | Uint8Array): this;
}

export class Model extends Managed {
  private constructor();
  static load(path: Path | Source, settings?: WithSettings<Control & { engine?: Engine }>): Promise<Model>;
  static create(config: object, settings?: WithSettings<Control & { engine?: Engine }>): Promise<Model>;
  static quantize(path: Path, target: Path, settings?: WithSettings<Control>): Promise<Settings>;
  save(path: Path, settings?: WithSettings<Control>): Promise<void>;
  config(): Settings;
  describe(): Settings;
  get(key: 'vocab' | 'hidden' | 'layers' | 'max_length' | 'mask_id' | 'params' | 'bytes'): number;
  readonly version: number;
  paramNames(): string[];
  param(name: string): Promise<Tensor>;
  setParam(name: string, value: Tensor | Nested): Promise<void>;
  setTokenizer(tokenizer: Tokenizer): void;
  forward(rows: Rows, settings?: WithSettings<Control>): Promise<Batch>;
}

export interface Message { role: string; content: string; [key: string]: unknown; }
export interface Conversation { ids: Int32Array; keep: Uint8Array; }

export class Tokenizer extends Managed {
  private constructor();
  static load(path: Path | Source, settings?: WithSettings<Control>): Promise<Tokenizer>;
  static train(dataset: Dataset, settings?: WithSettings<Control>): Promise<Tokenizer>;
  save(path: Path): void;
  readonly size: number;
  id(name: string): number;
  encode(text: string | Uint8Array): Int32Array;
  encodeAsync(text: string | Uint8Array, control?: Control): Promise<Int32Array>;
  chat(messages: readonly Message[], settings?: Settings): Conversation;
  chatAsync(messages: readonly Message[], settings?: Control & Settings): Promise<Conversation>;
  decode(ids: Numbers): string;
  decodeStream(ids: Numbers): { text: string; used: number };
}

export class Answer extends Managed {
  constructor(tokenizer: Tokenizer, settings?: Settings);
  update(ids: Numbers, states: Numbers): 'full' | 'end_token' | 'stop_text' | null;
  text(): string;
  next(): string;
  cells(): string[];
}

export class Dataset extends Managed {
  constructor(settings?: WithSettings<{ tokenizer?: Tokenizer }>);
  static open(path: Path, settings?: WithSettings<Control & { tokenizer?: Tokenizer }>): Promise<Dataset>;
  static of(rows: Iterable<string | object>, settings?: WithSettings<{ tokenizer?: Tokenizer }>): Dataset;
  add(row: string | object): this;
  readonly size: number;
  save(path: Path, settings?: WithSettings<Control>): Promise<void>;
}

export class Loader extends Managed implements AsyncIterable<Batch> {
  constructor(dataset: Dataset, settings?: Settings);
  next(): Promise<Batch | null>;
  [Symbol.asyncIterator](): AsyncGenerator<Batch, void, void>;
  readonly position: number;
  seek(position: number): void;
}

export class Schedule extends Managed {
  constructor(name?: string, settings?: Settings);
  static table(columns: { t: Numbers; alpha: Numbers; dalpha?: Numbers; weight?: Numbers }): Schedule;
  eval(times: Numbers): { alpha: Float64Array; dalpha: Float64Array; weight: Float64Array };
}

export class Objective extends Managed {
  constructor(name: string, settings?: WithSettings<{ schedule?: Schedule }>);
  prepare(rows: Rows, settings?: { seed?: number | bigint; step?: number; model?: Model }): Promise<Batch>;
  loss(model: Model, rows: Rows, settings?: Control & { seed?: number | bigint }): Promise<number>;
  rowLosses(model: Model, rows: Rows, settings?: Control & { seed?: number | bigint }): Promise<Batch>;
}

export class Trainer extends Managed {
  constructor(model: Model, objective: Objective, settings?: Settings);
  step(rows: Rows, control?: Control): Promise<number>;
  accumulate(rows: Rows, control?: Control): Promise<void>;
  apply(control?: Control): Promise<number>;
  sync(): Promise<void>;
  run(loader: Loader, steps: number, control?: Watched): Promise<void>;
  eval(loader: Loader, control?: Control & { batches?: number }): Promise<number>;
  metric(key: string): number;
  describe(): Settings;
  set(key: 'lr' | 'weight_decay' | 'clip', value: number): void;
  addSink(kind: 'jsonl' | 'console', target?: Path | null, settings?: Settings): void;
  model(role?: 'live' | 'ema'): Model;
}

export class Decoder extends Managed {
  constructor(model: Model, settings?: Settings);
  start(prompt?: Numbers, settings?: { seed?: number | bigint }): void;
  add(canvas: Numbers, settings?: WithSettings<{ fixed?: Iterable<number | boolean> }>): number;
  remove(slot: number): void;
  step(control?: Control): Promise<number>;
  stepFor(milliseconds: number, control?: Watched): Promise<number>;
  steps(control?: Control): AsyncGenerator<number, void, void>;
  run(control?: Watched): Promise<void>;
  predict(control?: Control): Promise<void>;
  statistics(slot?: number): Batch;
  commit(slot: number, positions: Numbers, ids: Numbers): void;
  ids(slot?: number): Int32Array;
  states(slot?: number): Uint8Array;
  confidence(slot?: number): Float32Array;
  metric(key: string, slot?: number): number;
  trace(slot?: number): Settings[];
  describe(): Settings;
}

export class Checkpoint extends Managed {
  constructor(path: Path);
  static open(path: Path, control?: Control): Promise<Checkpoint>;
  describe(): Settings;
  tensor(name: string): Tensor;
  verify(control?: Control): Promise<void>;
}
export function saveCheckpoint(trainer: Trainer, loader: Loader | null, root: Path,
  settings?: WithSettings<Control & { script_state?: unknown }>): Promise<string>;
export function restoreCheckpoint(trainer: Trainer, loader: Loader | null, folder: Path, control?: Control): Promise<void>;
export function latestCheckpoint(root: Path): string | null;
export function latestCheckpointAsync(root: Path, control?: Control): Promise<string | null>;

export class Lua extends Managed {
  constructor(settings?: Settings);
  set(name: string, value: unknown): void;
  runFile(path: Path, args?: readonly unknown[], control?: Control): Promise<unknown[]>;
  runText(code: string, control?: Control & { name?: string }): Promise<unknown[]>;
  call(name: string, args?: readonly unknown[], control?: Control): Promise<unknown[]>;
}
