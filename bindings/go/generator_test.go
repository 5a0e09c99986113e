package dllm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"dllm"
)

const stories = "../../scripts/recipes/stories.gguf"

var sharedGenerator = sync.OnceValues(func() (*dllm.Generator, error) {
	return dllm.LoadGenerator(context.Background(), stories)
})

func newGenerator(t *testing.T) *dllm.Generator {
	t.Helper()
	if _, err := os.Stat(stories); err != nil {
		t.Skip("the model of the checkout is not here")
	}
	return must[*dllm.Generator](t)(sharedGenerator())
}

// short is a request of eight positions in four steps.
var short = dllm.RequestOptions{Length: dllm.Ptr(8), Steps: dllm.Ptr(4)}

// textCase is a text that every language must generate.
type textCase struct {
	Name, Call, Text, Expect string
	Settings                 dllm.Options
}

func (c textCase) prompt() any {
	if c.Call == "infill" {
		return dllm.Infill(c.Text)
	}
	return c.Text
}

func textCases(t *testing.T) []textCase {
	t.Helper()
	var table struct{ Cases []textCase }
	data := must[[]byte](t)(os.ReadFile("../../tests/bindings/generate_cases.json"))
	if err := json.Unmarshal(data, &table); err != nil || len(table.Cases) < 8 {
		t.Fatalf("%d cases, %v", len(table.Cases), err)
	}
	return table.Cases
}

func TestGeneratedTexts(t *testing.T) {
	g, ctx := newGenerator(t), context.Background()
	for _, each := range textCases(t) {
		prompt := each.prompt()
		made, err := g.Generate(ctx, prompt, each.Settings)
		if err != nil || made.Whole != each.Expect {
			t.Errorf("%s: %v, %v", each.Name, made, err)
			continue
		}
		var pieces strings.Builder
		stream := g.Stream(ctx, prompt, each.Settings)
		for piece, err := range stream.Pieces() {
			if err != nil {
				t.Fatalf("%s: %v", each.Name, err)
			}
			pieces.WriteString(piece.Text)
		}
		if pieces.String() != made.Text || stream.Generation().Whole != each.Expect {
			t.Errorf("%s: the pieces are %q, the answer %q", each.Name, pieces.String(), made)
		}
	}
}

func TestWhatAGenerationHas(t *testing.T) {
	g, ctx := newGenerator(t), context.Background()
	made := must[*dllm.Generation](t)(g.Generate(ctx, "Once upon a time", short, dllm.Set("seed", 3)))
	if made.Finish != "full" || made.CompletionTokens != 8 || made.Steps != 4 || made.NFE != 4 || made.Seed != 3 ||
		made.Policy != "low_confidence" || made.Open != 0 || made.Whole != "Once upon a time"+made.String() ||
		len(made.IDs) != made.PromptTokens+8 || len(made.Confidence) != len(made.IDs) {
		t.Errorf("%+v", *made)
	}
	holes := must[*dllm.Generation](t)(g.Infill(ctx, "The<mask:3> was sad. Then<mask:5> came home.")).Holes
	if len(holes) != 2 {
		t.Errorf("%q", holes)
	}
}

func TestALoopOverPiecesIsLeftEarly(t *testing.T) {
	g := newGenerator(t)
	stream := g.Stream(context.Background(), "Once upon a time", short)
	for piece, err := range stream.Pieces() {
		if err != nil || piece.Step != 1 || piece.Open != 6 || !strings.Contains(piece.Canvas, "<mask") {
			t.Fatalf("%+v, %v", piece, err)
		}
		break
	}
	if made := stream.Generation(); made == nil || made.Finish != "open" {
		t.Fatalf("%+v", made)
	}
	wantNoRequest(t, g)
}

func wantNoRequest(t *testing.T, g *dllm.Generator) {
	t.Helper()
	if _, err := g.Step(context.Background()); !errors.Is(err, dllm.FailedPrecondition) {
		t.Fatalf("a request is left: %v", err)
	}
}

func TestOneFailedPromptLeavesTheOthers(t *testing.T) {
	g, ctx := newGenerator(t), context.Background()
	prompts := dllm.Prompts[any]("The sun", dllm.Infill("no hole <mask:x>"), "A cat")
	results, err := g.Batch(ctx, prompts, short, dllm.Set("seed", 5))
	if err != nil || !errors.Is(results[1].Err, dllm.InvalidArgument) || results[1].Generation != nil {
		t.Fatalf("%v, %v", results, err)
	}
	for _, i := range []int{0, 2} {
		alone := must[*dllm.Generation](t)(g.Generate(ctx, prompts[i], short, dllm.Set("seed", 5+i)))
		if results[i].Err != nil || results[i].Text != alone.Text || results[i].Seed != int64(5+i) {
			t.Errorf("%d: %v, %v", i, results[i], alone)
		}
	}
	if text := fmt.Sprint(results[1], results[0]); !strings.Contains(text, "not a hole") {
		t.Error(text)
	}
	wantNoRequest(t, g)
}

// A request in which no token may be drawn fails in its first step.
func TestARequestThatFailsInAStep(t *testing.T) {
	g, ctx := newGenerator(t), context.Background()
	tokenizer := must[*dllm.Tokenizer](t)(g.Tokenizer())
	all := make([]int, tokenizer.Len())
	for i := range all {
		all[i] = i
	}
	bad := must[int](t)(g.Add(ctx, "The sun", short, dllm.RequestOptions{Suppress: all}))
	good := must[int](t)(g.Add(ctx, "The sun", short))
	texts, answers := 0, 0
	err := g.Run(ctx, func(e *dllm.Event) error {
		switch e.Kind() {
		case dllm.EventText:
			texts++
		case dllm.EventAnswer:
			answers++
		}
		return nil
	})
	if err != nil || texts < 4 || answers != 2 {
		t.Errorf("%d, %d, %v", texts, answers, err)
	}
	if _, err := g.Generation(bad); err == nil {
		t.Error("a request without tokens is decoded")
	}
	if made, err := g.Generation(good); err != nil || made.Finish != "full" {
		t.Errorf("%v, %v", made, err)
	}
	for _, number := range []int{bad, good} {
		if err := g.Remove(number); err != nil {
			t.Error(err)
		}
	}
	for _, err := range g.Stream(ctx, "The sun", short, dllm.RequestOptions{Suppress: all}).Pieces() {
		if err == nil {
			t.Error("the stream of a failed request has a piece")
		}
	}
	wantNoRequest(t, g)
}

// More prompts than slots are decoded one after another.
func TestABatchOfMorePromptsThanSlots(t *testing.T) {
	g := newGenerator(t)
	model, tokenizer := must[*dllm.Model](t)(g.Model()), must[*dllm.Tokenizer](t)(g.Tokenizer())
	small := must[*dllm.Generator](t)(dllm.NewGenerator(model, tokenizer, dllm.GeneratorOptions{Slots: dllm.Ptr(2)}))
	prompts := dllm.Prompts("One", "Two", "Three", "Four", "Five")
	few, many := must[[]dllm.Result](t)(small.Batch(context.Background(), prompts, short)),
		must[[]dllm.Result](t)(g.Batch(context.Background(), prompts, short))
	for i := range prompts {
		if few[i].Err != nil || few[i].Text != many[i].Text {
			t.Errorf("%v: %v, %v", prompts[i], few[i], many[i])
		}
	}
}

func TestSettingsOfAGenerator(t *testing.T) {
	g, ctx := newGenerator(t), context.Background()
	_, err := g.Generate(ctx, "The sun", dllm.Options{"temprature": 1})
	var problem *dllm.Error
	if !errors.As(err, &problem) || !errors.Is(err, dllm.NotFound) || !strings.Contains(problem.Hint, "temperature") {
		t.Errorf("%v", err)
	}
	typed := must[*dllm.Generation](t)(g.Generate(ctx, "The sun", short, dllm.ThresholdPolicy{Threshold: dllm.Ptr(0.5)}))
	plain := must[*dllm.Generation](t)(g.Generate(ctx, "The sun", dllm.Options{"length": 8, "steps": 4,
		"policy": "threshold", "threshold": 0.5}))
	if typed.Policy != "threshold" || typed.Text != plain.Text {
		t.Errorf("%v, %v", typed, plain)
	}
	engine := must[*dllm.Engine](t)(dllm.NewEngine(dllm.EngineOptions{Threads: dllm.Ptr(1)}))
	for _, on := range []any{engine, dllm.EngineOptions{Threads: dllm.Ptr(1)}, map[string]any{"threads": 1}} {
		loaded, err := dllm.LoadGenerator(ctx, stories, dllm.GeneratorOptions{Policy: "random"},
			dllm.ModelOptions{Dtype: "f32"}, dllm.Set("engine", on))
		if err != nil {
			t.Fatal(err)
		}
		if made, err := loaded.Generate(ctx, "The sun", short); err != nil || made.Policy != "random" {
			t.Errorf("%v, %v", made, err)
		}
		_ = loaded.Close()
	}
	for _, wrong := range []dllm.Option{dllm.Set("engine", 3), dllm.Set("polcy", "random"),
		dllm.Set("engine", dllm.Options{"thraeds": 1})} {
		if _, err := dllm.LoadGenerator(ctx, stories, wrong); err == nil {
			t.Errorf("%v is taken", wrong)
		}
	}
	if _, err := g.Generate(ctx, nil); !errors.Is(err, dllm.InvalidArgument) {
		t.Errorf("%v", err)
	}
	if _, err := g.Generate(ctx, []dllm.Message{{Role: "user", Content: "Hi"}}); !errors.Is(err, dllm.FailedPrecondition) {
		t.Errorf("a model without a chat template: %v", err)
	}
}

func TestAMisspeltOptionOfLoad(t *testing.T) {
	newGenerator(t)
	for name, hint := range map[string]string{"polcy": "did you mean policy?", "dtpe": "did you mean dtype?",
		"xyz": "dtype, engine, heads"} {
		_, err := dllm.LoadGenerator(context.Background(), stories, dllm.Set(name, "random"),
			dllm.Set("engine", dllm.Options{"threads": 1}))
		if !errors.Is(err, dllm.NotFound) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatJSONCannotHoldIsNamed(t *testing.T) {
	g, ctx := newGenerator(t), context.Background()
	half := "ab\xed\xa0\x80"
	said := []dllm.Message{{Role: "user", Content: "Hi"}, {Role: "user", Content: half}}
	for _, each := range []struct {
		prompt  any
		option  dllm.Option
		message string
	}{
		{"a", dllm.Set("temperature", math.NaN()), "temperature is NaN: write a finite number"},
		{"a", dllm.RequestOptions{Temperature: dllm.Ptr(math.Inf(1))}, "temperature is Infinity: write a finite number"},
		{"a", dllm.Set("top_p", float32(math.Inf(-1))), "top_p is -Infinity: write a finite number"},
		{"a", dllm.Set("stop", []string{"x", half}), "stop, item 2: not UTF-8 at character 3"},
		{"a", dllm.Set("variables", map[string]any{"a": []any{1, math.NaN()}}),
			"variables, a, item 2 is NaN: write a finite number"},
		{half, nil, "prompt: not UTF-8 at character 3"},
		{said, nil, "message 2, content: not UTF-8 at character 3"},
	} {
		_, err := g.Generate(ctx, each.prompt, each.option)
		var problem *dllm.Error
		if !errors.As(err, &problem) || problem.Code != dllm.InvalidArgument || problem.Message != each.message {
			t.Errorf("%v instead of %s", err, each.message)
		}
	}
	type config struct {
		Inner struct{ Shift float64 } `json:"dllm"`
	}
	own := config{}
	own.Inner.Shift = math.NaN()
	if _, err := dllm.NewModel(ctx, nil, own); err == nil || !strings.Contains(err.Error(), "dllm, Shift is NaN") {
		t.Errorf("%v", err)
	}
	type ring struct{ Next *ring }
	round := &ring{}
	round.Next = round
	if _, err := dllm.NewModel(ctx, nil, round); err == nil {
		t.Error("a value that holds itself is taken")
	}
}

func TestAGeneratorIsCancelledAndClosed(t *testing.T) {
	g := newGenerator(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream := g.Stream(ctx, "Once upon a time", dllm.Options{"length": 64, "steps": 64})
	seen := 0
	for _, err := range stream.Pieces() {
		if seen++; seen == 3 {
			cancel()
		}
		if seen == 4 && !errors.Is(err, context.Canceled) || seen < 4 && err != nil || seen > 4 {
			t.Fatalf("%d: %v", seen, err)
		}
	}
	results, err := g.Batch(ctx, dllm.Prompts("a", "b"), short)
	if !errors.Is(err, dllm.Cancelled) || !errors.Is(results[0].Err, dllm.Cancelled) || results[1].Err == nil {
		t.Errorf("%v, %v", results, err)
	}
	wantNoRequest(t, g)
	decoder := must[*dllm.Decoder](t)(g.Decoder())
	if err := decoder.Start([]int32{1}, 0); !errors.Is(err, dllm.FailedPrecondition) {
		t.Errorf("%v", err)
	}
	model, tokenizer := must[*dllm.Model](t)(g.Model()), must[*dllm.Tokenizer](t)(g.Tokenizer())
	closed := must[*dllm.Generator](t)(dllm.NewGenerator(model, tokenizer))
	_, _ = closed.Close(), closed.Close()
	if _, err := closed.Generate(context.Background(), "a"); !errors.Is(err, dllm.ErrClosed) {
		t.Errorf("%v", err)
	}
}
