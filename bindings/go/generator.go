package dllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Generator takes requests for text and returns text. It has a model, its tokenizer and a decoder.
//
// Any goroutine may call it. Its calls run one after another, in the order in which they came; a stream has its turn for one
// step at a time. A context or a [Task] that ends also ends the wait for the turn, and Close ends it with [ErrClosed].
//
// A callback may call Text, Describe and Generation of its generator; other calls fail with [FailedPrecondition]. A callback
// must not wait for a call of its generator on another goroutine: both would wait forever.
type Generator struct {
	resource
	turns *turns
}

// LoadGenerator loads a model with its tokenizer: a model folder, a GGUF file, a run or a checkpoint. Options are those of
// kinds "generator" and "model" at one level, and "engine": an [*Engine], or options of kind "engine" for one of its own.
// Without it the default engine is used. It fails as [LoadModel] and [NewGenerator] do.
func LoadGenerator(ctx context.Context, path string, options ...Option) (*Generator, error) {
	parts, err := splitLoad(options, "generator")
	if err != nil {
		return nil, err
	}
	defer parts.closeOwned()
	c := begin()
	defer c.end()
	var out handle
	on, where := c.engine(parts.engine), c.text(path)
	model, settings := c.settings("model", parts.model), c.settings("generator", parts.own)
	task := c.watch(ctx)
	if c.ok() {
		c.status(dllm_generator_load(where, on, model, settings, task, &out, c.errp))
	}
	return newGenerator(&c, out)
}

// NewGenerator makes a generator of a model and a tokenizer; options of kind "generator". A model without a mask token is
// [FailedPrecondition] where the policy needs one.
func NewGenerator(model *Model, tokenizer *Tokenizer, options ...Option) (*Generator, error) {
	c := begin()
	defer c.end()
	var out handle
	of, with, settings := c.use(model.object), c.use(tokenizer.object), c.settings("generator", options)
	if c.ok() {
		c.status(dllm_generator_new(of, with, settings, &out, c.errp))
	}
	return newGenerator(&c, out)
}

func newGenerator(c *call, out handle) (*Generator, error) {
	if c.err != nil {
		return nil, c.err
	}
	g := &Generator{turns: newTurns()}
	g.adopt("generator", out, dllm_generator_release)
	return g, nil
}

// Close releases the generator. The call that runs ends as it would have, and calls that wait for it return [ErrClosed].
func (g *Generator) Close() error {
	err := g.resource.Close()
	if g.turns != nil {
		g.turns.close()
	}
	return err
}

// Infill is a text with holes in the place of a prompt: <mask:N> is N open tokens, <mask> is one.
type Infill string

// withPrompt adds the text that a request begins with: a string, an [Infill], or messages.
func withPrompt(prompt any, options []Option) ([]Option, error) {
	switch text := prompt.(type) {
	case nil:
		return nil, invalid("the prompt is nil", "use a string, an Infill or a []Message")
	case string:
		return append(options[:len(options):len(options)], Set("prompt", text)), nil
	case Infill:
		return append(options[:len(options):len(options)], Set("infill", string(text))), nil
	default:
		return append(options[:len(options):len(options)], Set("messages", text)), nil
	}
}

// Add adds a request and returns its number. prompt is a string that the answer continues, an [Infill], or a conversation:
// a []Message or anything with the like JSON. Options are those of kind "request", and with "policy" those of that policy
// too. It fails with [OutOfRange] when prompt and answer are longer than the model allows, with [ResourceExhausted] when no
// slot is free, and with [FailedPrecondition] for messages without a chat template.
func (g *Generator) Add(ctx context.Context, prompt any, options ...Option) (number int, err error) {
	return inTurn(ctx, g, func() (int, error) { return g.add(ctx, prompt, options) })
}

func (g *Generator) add(ctx context.Context, prompt any, options []Option) (int, error) {
	options, err := withPrompt(prompt, options)
	if err != nil {
		return 0, err
	}
	c := begin()
	defer c.end()
	var out int64
	self, settings, task := c.use(g.object), c.settings(kindOfRequest(options), options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_generator_add(self, settings, task, &out, c.errp))
	}
	return int(out), c.err
}

// kindOfRequest is the kind of the options of a request: a policy has options of its own.
func kindOfRequest(options []Option) string {
	if policy := named(options, "policy"); policy != "" && policy != "auto" {
		return "request:" + policy
	}
	return "request"
}

// Remove removes a request, open or over; its number may be used again. It fails with [NotFound] for another number.
func (g *Generator) Remove(number int) error {
	leave, err := g.turn(context.Background())
	if err != nil {
		return err
	}
	defer leave()
	return g.remove(number)
}

func (g *Generator) remove(number int) error {
	c := begin()
	defer c.end()
	self := c.use(g.object)
	if c.ok() {
		c.status(dllm_generator_remove(self, int64(number), c.errp))
	}
	return c.err
}

// Step takes one denoising step of every open request and returns how many requests are open. A request that fails is over;
// Text returns its error. Without a request Step fails with [FailedPrecondition].
func (g *Generator) Step(ctx context.Context) (open int, err error) {
	return inTurn(ctx, g, func() (int, error) { return g.step(ctx) })
}

func (g *Generator) step(ctx context.Context) (int, error) {
	c := begin()
	defer c.end()
	var out int64
	self, task := c.use(g.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_generator_step(self, task, &out, c.errp))
	}
	return int(out), c.err
}

// Run takes steps until no request is open; callback (may be nil) gets [EventText] after each step of a request, and
// [EventAnswer] when a request is over. When the context ends the run the requests stay open, and a later run continues.
func (g *Generator) Run(ctx context.Context, callback Callback) error {
	leave, err := g.turn(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if callback != nil {
		defer g.turns.callBack()()
	}
	return g.run(ctx, callback)
}

func (g *Generator) run(ctx context.Context, callback Callback) error {
	c := begin()
	defer c.end()
	self, task := c.use(g.object), c.watch(ctx)
	c.withCallback(callback, func(fn, number uintptr) int32 {
		return dllm_generator_run(self, fn, number, task, c.errp)
	})
	return c.err
}

// Text returns a part of the text of a request: "completion", "text" (prompt and answer), "next" (final text that was not
// returned before) or "canvas" (<mask:N> for N open positions). It returns the error of a request that failed.
func (g *Generator) Text(number int, part string) (string, error) {
	return inTurn(context.Background(), g, func() (string, error) { return g.text(number, part) })
}

func (g *Generator) text(number int, part string) (string, error) {
	c := begin()
	defer c.end()
	self, name, out := c.use(g.object), c.text(part), c.room()
	if c.ok() {
		c.status(dllm_generator_text(self, int64(number), name, out, c.errp))
	}
	return string(c.content()), c.err
}

// Describe returns a request as JSON; number -1 is the generator.
func (g *Generator) Describe(number int) (json.RawMessage, error) {
	return inTurn(context.Background(), g, func() (json.RawMessage, error) { return g.describe(number) })
}

func (g *Generator) describe(number int) (json.RawMessage, error) {
	c := begin()
	defer c.end()
	self, out := c.use(g.object), c.room()
	if c.ok() {
		c.status(dllm_generator_describe(self, int64(number), out, c.errp))
	}
	return c.raw(), c.err
}

// Decoder returns the decoder, for what it reads: its slots have the numbers of the requests. Its calls that change
// something fail with [FailedPrecondition].
func (g *Generator) Decoder() (*Decoder, error) {
	out, err := g.part(dllm_generator_decoder)
	if err != nil {
		return nil, err
	}
	d := &Decoder{}
	d.adopt("decoder", out, dllm_decoder_release)
	return d, nil
}

// Model returns the model.
func (g *Generator) Model() (*Model, error) {
	out, err := g.part(dllm_generator_model)
	if err != nil {
		return nil, err
	}
	return newModel(out), nil
}

// Tokenizer returns the tokenizer.
func (g *Generator) Tokenizer() (*Tokenizer, error) {
	out, err := g.part(dllm_generator_tokenizer)
	if err != nil {
		return nil, err
	}
	return newTokenizer(out), nil
}

// loadParts are the options of LoadGenerator or LoadQueue, each at its kind. own has those of the noun itself.
type loadParts struct {
	engine     *Engine
	owned      bool
	model, own []Option
}

// closeOwned closes the engine that was made for the noun, which keeps it alive.
func (p *loadParts) closeOwned() {
	if p.owned {
		_ = p.engine.Close()
	}
}

func splitLoad(options []Option, kind string) (*loadParts, error) {
	values, err := merge(options)
	if err != nil {
		return nil, err
	}
	ofNoun, err := keysOf(kind)
	if err != nil {
		return nil, err
	}
	ofModel, err := keysOf("model")
	if err != nil {
		return nil, err
	}
	model, own, parts := Options{}, Options{}, &loadParts{}
	for name, value := range values {
		switch {
		case name == "engine":
			err = parts.take(value)
		case slices.Contains(ofNoun, name):
			own[name] = value
		case slices.Contains(ofModel, name):
			model[name] = value
		default:
			err = unknownOfLoad(name, kind, slices.Concat(ofNoun, ofModel, []string{"engine"}))
		}
		if err != nil {
			parts.closeOwned()
			return nil, err
		}
	}
	parts.model, parts.own = []Option{model}, []Option{own}
	return parts, nil
}

func (p *loadParts) take(engine any) (err error) {
	switch given := engine.(type) {
	case *Engine:
		p.engine = given
	case Option:
		p.engine, err = NewEngine(given)
		p.owned = err == nil
	case map[string]any:
		p.engine, err = NewEngine(Options(given))
		p.owned = err == nil
	default:
		err = invalid(fmt.Sprintf("option engine is a %T", engine), "use an *Engine or EngineOptions")
	}
	return err
}

// unknownOfLoad is the error of an option that a load does not have: it has the nearest name of one of its kinds, or
// all its names.
func unknownOfLoad(name, noun string, names []string) error {
	slices.Sort(names)
	hint := "the names are " + strings.Join(names, ", ")
	for _, kind := range []string{noun, "model"} {
		_, err := Effective(kind, Set(name, 0))
		var problem *Error
		if errors.As(err, &problem) && strings.HasPrefix(problem.Hint, "did you mean") {
			hint = problem.Hint
			break
		}
	}
	message := fmt.Sprintf("there is no option named %q of kind model or %s", name, noun)
	return &Error{Code: NotFound, Message: message, Hint: hint}
}

// keysOf are the names of the options of a kind.
func keysOf(kind string) ([]string, error) {
	data, err := Schema(kind)
	if err != nil {
		return nil, err
	}
	var schema struct{ Keys []struct{ Name string } }
	if err := json.Unmarshal(data, &schema); err != nil {
		return nil, err
	}
	names := make([]string, len(schema.Keys))
	for i, key := range schema.Keys {
		names[i] = key.Name
	}
	return names, nil
}
