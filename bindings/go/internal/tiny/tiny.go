// Package tiny makes a model, a tokenizer and text small enough for every test.
package tiny

import (
	"context"
	"fmt"

	"dllm"
)

// Tiny owns one of everything.
type Tiny struct {
	Engine    *dllm.Engine
	Tokenizer *dllm.Tokenizer
	Data      *dllm.Dataset
	Loader    *dllm.Loader
	Model     *dllm.Model
}

// Sentences are the text of every test.
func Sentences() []string {
	sentences := make([]string, 200)
	for i := range sentences {
		sentences[i] = fmt.Sprintf("the cat sat on the mat and looked at the moon number %d", i%7)
	}
	return sentences
}

// New makes one of everything. Training goes on with the same model.
func New() (*Tiny, error) {
	t := &Tiny{}
	var raw *dllm.Dataset
	steps := []func() error{
		func() (err error) { t.Engine, err = dllm.NewEngine(dllm.Set("threads", 2)); return },
		func() (err error) { raw, err = dllm.Texts(Sentences(), nil); return },
		func() (err error) {
			t.Tokenizer, err = dllm.TrainTokenizer(context.Background(), raw, dllm.Set("vocab_size", 300))
			return
		},
		func() (err error) { t.Data, err = dllm.Texts(Sentences(), t.Tokenizer); return },
		func() (err error) {
			t.Loader, err = dllm.NewLoader(t.Data, dllm.Options{"batch": 4, "length": 32, "epochs": 0})
			return
		},
		func() (err error) { t.Model, err = t.NewModel(); return },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// NewModel makes another model of the same config.
func (t *Tiny) NewModel(options ...dllm.Option) (*dllm.Model, error) {
	mask, err := t.Tokenizer.ID("<|mask|>")
	if err != nil {
		return nil, err
	}
	return dllm.NewModel(context.Background(), t.Engine, map[string]any{
		"model_type": "llama", "vocab_size": t.Tokenizer.Len(), "hidden_size": 64, "intermediate_size": 128,
		"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64,
		"tie_word_embeddings": true,
		"dllm":                map[string]any{"attention": "bidirectional", "shift": 0, "mask_token_id": mask},
	}, options...)
}

// Decoder starts "the cat" with seed 7.
func (t *Tiny) Decoder(options ...dllm.Option) (*dllm.Decoder, error) {
	defaults := dllm.Options{"steps": 6, "gen_length": 12}
	decoder, err := dllm.NewDecoder(t.Model, append([]dllm.Option{defaults}, options...)...)
	if err != nil {
		return nil, err
	}
	prompt, err := t.Tokenizer.Encode("the cat")
	if err != nil {
		return nil, err
	}
	return decoder, decoder.Start(prompt, 7)
}
