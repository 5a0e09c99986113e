package dllm

import (
	"context"
)

// Tokenizer turns text into ids and back.
type Tokenizer struct{ resource }

func newTokenizer(pointer handle) *Tokenizer {
	t := &Tokenizer{}
	t.adopt("tokenizer", pointer, dllm_tokenizer_release)
	return t
}

// LoadTokenizer loads tokenizer.json, a folder that holds one, a run or a GGUF file; options of kind "tokenizer".
func LoadTokenizer(path string, options ...Option) (*Tokenizer, error) {
	return LoadTokenizerContext(context.Background(), path, options...)
}

// LoadTokenizerContext is LoadTokenizer for object stores: it stops when the context is done.
func LoadTokenizerContext(ctx context.Context, path string, options ...Option) (*Tokenizer, error) {
	c := begin()
	defer c.end()
	var out handle
	where, settings, task := c.text(path), c.settings("tokenizer", options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_tokenizer_load_task(where, settings, task, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newTokenizer(out), nil
}

// LoadTokenizerSource loads a tokenizer from files in memory.
func LoadTokenizerSource(source *Source, options ...Option) (*Tokenizer, error) {
	c := begin()
	defer c.end()
	var out handle
	from, settings := c.use(source.object), c.settings("tokenizer", options)
	if c.ok() {
		c.status(dllm_tokenizer_load_source(from, settings, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newTokenizer(out), nil
}

// TrainTokenizer makes a byte-level BPE tokenizer of a dataset that was opened without one; options of kind
// "tokenizer_train".
func TrainTokenizer(ctx context.Context, text *Dataset, options ...Option) (*Tokenizer, error) {
	c := begin()
	defer c.end()
	var out handle
	from, settings, task := c.use(text.object), c.settings("tokenizer_train", options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_tokenizer_train(from, settings, task, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newTokenizer(out), nil
}

// Save writes tokenizer.json into a folder.
func (t *Tokenizer) Save(path string) error {
	c := begin()
	defer c.end()
	self, where := c.use(t.object), c.text(path)
	if c.ok() {
		c.status(dllm_tokenizer_save(self, where, c.errp))
	}
	return c.err
}

// Len is the number of tokens; 0 for a closed tokenizer.
func (t *Tokenizer) Len() int {
	if !t.enter() {
		return 0
	}
	defer t.leave()
	return int(dllm_tokenizer_size(t.pointer))
}

// ID returns the id of one token by its text, or of "mask", "bos", "eos", "pad".
func (t *Tokenizer) ID(name string) (int32, error) {
	c := begin()
	defer c.end()
	var out int32
	self, key := c.use(t.object), c.text(name)
	if c.ok() {
		c.status(dllm_tokenizer_id(self, key, &out, c.errp))
	}
	return out, c.err
}

// Encode returns the ids of a text.
func (t *Tokenizer) Encode(text string) ([]int32, error) {
	c := begin()
	defer c.end()
	var count int64
	self := c.use(t.object)
	if !c.ok() {
		return nil, c.err
	}
	ids := make([]int32, len(text)/2+8)
	for {
		status := dllm_tokenizer_encode(self, textAddress(text), int64(len(text)), &ids[0], int64(len(ids)), &count, c.errp)
		if status == dllmOutOfRange && count > int64(len(ids)) {
			ids = make([]int32, count)
			continue
		}
		c.status(status)
		return ids[:min(count, int64(len(ids)))], c.err
	}
}

// EncodeContext is Encode for texts of megabytes: it stops when the context is done.
func (t *Tokenizer) EncodeContext(ctx context.Context, text string) ([]int32, error) {
	c := begin()
	defer c.end()
	var out handle
	self, task := c.use(t.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_tokenizer_encode_task(self, textAddress(text), int64(len(text)), task, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	row := newBatch(out)
	defer row.Close()
	return ReadArray[int32](row, "ids")
}

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`    // system, user or assistant
	Content string `json:"content"` // what it says
}

// Chat returns the ids of a conversation, and keep: 0 for text of the assistant. messages is a []Message, or anything
// with the like JSON. Options of kind "chat".
func (t *Tokenizer) Chat(ctx context.Context, messages any, options ...Option) (ids []int32, keep []byte, err error) {
	c := begin()
	defer c.end()
	var out handle
	self, settings, task := c.use(t.object), c.settings("chat", options), c.watch(ctx)
	data, size := c.json(messages, "messages")
	if c.ok() {
		c.status(dllm_tokenizer_chat_task(self, data, size, settings, task, &out, c.errp))
	}
	if c.err != nil {
		return nil, nil, c.err
	}
	row := newBatch(out)
	defer row.Close()
	if ids, err = ReadArray[int32](row, "ids"); err != nil {
		return nil, nil, err
	}
	keep, err = ReadArray[byte](row, "keep")
	return ids, keep, err
}

// Decode returns the text of ids.
func (t *Tokenizer) Decode(ids []int32) (string, error) {
	c := begin()
	defer c.end()
	self, out := c.use(t.object), c.room()
	if c.ok() {
		c.status(dllm_tokenizer_decode(self, (*int32)(address(ids)), int64(len(ids)), out, c.errp))
	}
	return string(c.content()), c.err
}

// DecodeStream returns the text of whole characters only, and how many ids it took: keep ids[used:] for the next call.
func (t *Tokenizer) DecodeStream(ids []int32) (text string, used int, err error) {
	c := begin()
	defer c.end()
	var count int64
	self, out := c.use(t.object), c.room()
	if c.ok() {
		c.status(dllm_tokenizer_decode_stream(self, (*int32)(address(ids)), int64(len(ids)), out, &count, c.errp))
	}
	return string(c.content()), int(count), c.err
}
