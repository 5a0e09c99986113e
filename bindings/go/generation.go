package dllm

import (
	"context"
	"encoding/json"
	"errors"
)

// Generation is the text of a request with what is known of it. The lists have one entry per position of the canvas.
type Generation struct {
	Text             string    `json:"completion"`        // the answer; of an [Infill]: the whole text
	Whole            string    `json:"text"`              // the prompt and the answer
	Finish           string    `json:"finish"`            // full, end_token, stop_text or incomplete; open: it is not over
	Holes            []string  `json:"holes"`             // the texts in the holes of an [Infill]
	PromptTokens     int       `json:"prompt_tokens"`     // tokens of the prompt
	CompletionTokens int       `json:"completion_tokens"` // tokens of the answer
	Open             int       `json:"open"`              // open positions
	Steps            int       `json:"steps"`             // denoising steps
	NFE              int       `json:"nfe"`               // forward passes of the model
	IDs              []int32   `json:"ids"`               // token ids
	Confidence       []float32 `json:"confidence"`        // a probability, 1 for a given position
	Policy           string    `json:"policy"`            // the policy that decoded it
	Seed             int64     `json:"seed"`              // the seed of its random numbers
}

// String returns the answer.
func (g *Generation) String() string { return g.Text }

// Generation returns a request as it is now, or the error of a request that failed.
func (g *Generator) Generation(number int) (*Generation, error) {
	return inTurn(context.Background(), g, func() (*Generation, error) { return g.generation(number) })
}

func (g *Generator) generation(number int) (*Generation, error) {
	if _, err := g.text(number, "completion"); err != nil {
		return nil, err
	}
	data, err := g.describe(number)
	if err != nil {
		return nil, err
	}
	made := &Generation{}
	return made, json.Unmarshal(data, made)
}

// Generate decodes one request, as [Generator.Add] takes it, and removes it. Other open requests take their steps too. When
// the context is done it returns an error that matches [Cancelled], or [DeadlineExceeded] after its deadline. The time in
// which it waits for calls of other goroutines counts too.
func (g *Generator) Generate(ctx context.Context, prompt any, options ...Option) (*Generation, error) {
	return inTurn(ctx, g, func() (*Generation, error) {
		number, err := g.add(ctx, prompt, options)
		if err != nil {
			return nil, err
		}
		defer func() { _ = g.remove(number) }()
		if err := g.run(ctx, nil); err != nil {
			return nil, err
		}
		return g.generation(number)
	})
}

// Infill fills the holes of a text, all at once: <mask:N> is N open tokens, <mask> is one. Otherwise it is
// [Generator.Generate].
func (g *Generator) Infill(ctx context.Context, text string, options ...Option) (*Generation, error) {
	return g.Generate(ctx, Infill(text), options...)
}

// Prompts makes the list that [Generator.Batch] takes.
func Prompts[T any](prompts ...T) []any {
	list := make([]any, len(prompts))
	for i, prompt := range prompts {
		list[i] = prompt
	}
	return list
}

// Result is what a prompt of [Generator.Batch] gave: a generation or an error.
type Result struct {
	*Generation
	Err error // why there is no generation
}

// String returns the answer, or the text of the error.
func (r Result) String() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return r.Generation.String()
}

// Batch decodes several requests together, as many at a time as the generator has slots. Prompt i has seed + i. An error of
// one prompt is in its result and leaves the others alone. What ends the call as a whole, such as the context, is returned,
// and is the error of every prompt that is not over. Where there are more prompts than
// slots, calls of other goroutines may run in between.
func (g *Generator) Batch(ctx context.Context, prompts []any, options ...Option) ([]Result, error) {
	results := make([]Result, len(prompts))
	for next := 0; next < len(prompts); {
		taken, err := g.wave(ctx, prompts[next:], results[next:], next, options)
		if next += taken; err != nil {
			for i := next; i < len(results); i++ {
				results[i].Err = err
			}
			return results, err
		}
	}
	return results, nil
}

// wave decodes as many of the first prompts as there are slots for, and returns their number.
func (g *Generator) wave(ctx context.Context, prompts []any, results []Result, first int, options []Option) (int, error) {
	leave, err := g.turn(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	numbers := make(map[int]int)
	defer func() {
		for _, number := range numbers {
			_ = g.remove(number)
		}
	}()
	taken := 0
	for ; taken < len(prompts) && ctx.Err() == nil; taken++ {
		seeded := append(options[:len(options):len(options)], seedOf(options, first+taken))
		number, err := g.add(ctx, prompts[taken], seeded)
		if errors.Is(err, ResourceExhausted) && len(numbers) > 0 {
			break
		}
		if results[taken].Err = err; err == nil {
			numbers[taken] = number
		}
	}
	if len(numbers) == 0 {
		return taken, contextError(ctx)
	}
	failed := g.run(ctx, nil)
	for i, number := range numbers {
		made, err := g.generation(number)
		if err == nil && made.Finish == "open" {
			made, err = nil, failed
		}
		results[i] = Result{made, err}
	}
	return taken, failed
}

// contextError is the error of a context that is done.
func contextError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return cancelled(ctx)
}

// seedOf is the seed of a prompt of a batch. A seed that is not a whole number is left for the library to refuse.
func seedOf(options []Option, index int) Option {
	values, err := merge(options)
	if err != nil {
		return nil
	}
	seed := int64(0)
	if given, found := values["seed"]; found {
		data, err := json.Marshal(given)
		if err != nil || json.Unmarshal(data, &seed) != nil {
			return nil
		}
	}
	return Set("seed", seed+int64(index))
}
