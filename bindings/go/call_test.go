package dllm_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dllm"
	"dllm/internal/tiny"
)

// shared is one of everything for tests that change no weights.
var shared = sync.OnceValues(tiny.New)

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func newDecoder(t testing.TB, options ...dllm.Option) *dllm.Decoder {
	t.Helper()
	all := must[*tiny.Tiny](t)(shared())
	decoder := must[*dllm.Decoder](t)(all.Decoder(options...))
	t.Cleanup(func() { _ = decoder.Close() })
	return decoder
}

func newTrainer(t testing.TB) (*dllm.Trainer, *dllm.Loader) {
	t.Helper()
	all := must[*tiny.Tiny](t)(shared())
	model := must[*dllm.Model](t)(all.NewModel())
	objective := must[*dllm.Objective](t)(dllm.NewObjective("mdlm", nil))
	loader := must[*dllm.Loader](t)(dllm.NewLoader(all.Data, dllm.Options{"batch": 4, "length": 32, "epochs": 0}))
	return must[*dllm.Trainer](t)(dllm.NewTrainer(model, objective, dllm.Set("lr", 3e-3))), loader
}

func TestErrorsAreMatchedByCode(t *testing.T) {
	_, err := dllm.LoadModel(context.Background(), nil, filepath.Join(t.TempDir(), "nowhere"))
	var problem *dllm.Error
	if !errors.Is(err, dllm.NotFound) || errors.Is(err, dllm.Internal) || !errors.As(err, &problem) {
		t.Fatalf("%v", err)
	}
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(problem.Message, "nowhere") {
		t.Fatalf("%v", err)
	}
	if got := dllm.NotFound.Error(); got != "dllm: not_found" {
		t.Fatal(got)
	}
	all := must[*tiny.Tiny](t)(shared())
	if _, err := all.Tokenizer.ID("a\x00b"); !errors.Is(err, dllm.InvalidArgument) {
		t.Fatalf("%v", err)
	}
	if _, err := dllm.NewDecoder(all.Model, dllm.Set("steps", func() {})); err == nil {
		t.Fatal("a function is not an option")
	}
}

func TestASecondLibraryIsRefused(t *testing.T) {
	if err := dllm.Load(""); err != nil {
		t.Fatal(err)
	}
	if err := dllm.Load("/nowhere/libdllm.so"); !errors.Is(err, dllm.FailedPrecondition) {
		t.Fatalf("%v", err)
	}
}

func TestOptionsOfAllForms(t *testing.T) {
	type settings struct {
		Steps  int    `json:"steps,omitzero"`
		Length int    `json:"gen_length,omitzero"`
		Policy string `json:"policy,omitzero"`
	}
	options := []dllm.Option{dllm.Fields(settings{Steps: 3, Policy: "low_confidence"}), dllm.Set("gen_length", 5), nil,
		dllm.Options{"temperature": 0.5}}
	var effective map[string]any
	raw := must[json.RawMessage](t)(dllm.Effective("decoder", options...))
	if err := json.Unmarshal(raw, &effective); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"steps": 3.0, "gen_length": 5.0, "temperature": 0.5, "policy": "low_confidence"} {
		if effective[name] != want {
			t.Errorf("%s is %v, want %v", name, effective[name], want)
		}
	}
	for _, policy := range must[[]string](t)(dllm.Names("policy")) {
		switch policy {
		case "editflow", "diffusion_gemma", "cola", "embedding", "latent":
			continue // needs a model of its own
		}
		decoder := newDecoder(t, dllm.Options{"gen_length": 8, "block_length": 4}, dllm.Fields(settings{Policy: policy}))
		if err := decoder.Run(context.Background(), nil); err != nil {
			t.Errorf("%s: %v", policy, err)
		}
	}
}

func TestAContextThatIsDoneEndsACall(t *testing.T) {
	trainer, loader := newTrainer(t)
	cause := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	err := trainer.Run(ctx, loader, 1_000_000, nil)
	if !errors.Is(err, dllm.Cancelled) || !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Fatalf("%v", err)
	}
	if _, err := trainer.Eval(ctx, loader, 1); !errors.Is(err, cause) { // before the call
		t.Fatalf("%v", err)
	}
	late, cancelLate := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancelLate()
	err = trainer.Run(late, loader, 1_000_000, nil)
	if !errors.Is(err, dllm.DeadlineExceeded) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	for loss, err := range trainer.Steps(context.Background(), loader, 2) {
		if err != nil || loss <= 0 {
			t.Fatalf("%v %v", loss, err)
		}
	}
}

func TestATaskShowsProgressAndCancels(t *testing.T) {
	trainer, loader := newTrainer(t)
	task := must[*dllm.Task](t)(dllm.NewTask())
	defer task.Close()
	err := trainer.Run(dllm.WithTask(context.Background(), task), loader, 1_000_000, func(event *dllm.Event) error {
		if step, _ := event.Int("step"); step == 3 {
			done, total := task.Progress()
			if done < 1 || total != 1_000_000 {
				t.Errorf("progress %d of %d", done, total)
			}
			task.Cancel()
		}
		return nil
	})
	if !errors.Is(err, dllm.Cancelled) || errors.Is(err, context.Canceled) || !task.Cancelled() {
		t.Fatalf("%v", err)
	}
	timed := must[*dllm.Task](t)(dllm.NewTask())
	timed.SetDeadline(20 * time.Millisecond)
	err = trainer.Run(dllm.WithTask(context.Background(), timed), loader, 1_000_000, nil)
	if !errors.Is(err, dllm.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
}

func TestCallbacks(t *testing.T) {
	decoder := newDecoder(t)
	mine := errors.New("mine")
	var kept *dllm.Event
	if err := decoder.Run(context.Background(), func(event *dllm.Event) error { kept = event; return mine }); err != mine {
		t.Fatalf("%v", err)
	}
	if _, ok := kept.Int32s("ids"); ok {
		t.Fatal("an event is readable after its callback")
	}
	func() {
		defer func() {
			if value := recover(); value != "mine" {
				t.Fatalf("recovered %v", value)
			}
		}()
		_, _ = decoder.StepFor(context.Background(), time.Minute, func(*dllm.Event) error { panic("mine") })
	}()
	if err := decoder.Run(context.Background(), func(*dllm.Event) error { return dllm.Stop }); err != nil {
		t.Fatal(err)
	}
	looks := 0
	err := decoder.Run(context.Background(), func(event *dllm.Event) error {
		if event.Kind() != dllm.EventDecodeStep {
			return nil
		}
		looks++
		ids, hasIDs := event.Int32s("ids")
		confidence, hasConfidence := event.Float32s("confidence")
		if _, hasNothing := event.Float("nothing"); hasNothing || !hasIDs || !hasConfidence || len(ids) != len(confidence) {
			t.Errorf("%d ids, %d numbers", len(ids), len(confidence))
		}
		described, err := event.Describe()
		if !json.Valid(described) {
			t.Errorf("%s", described)
		}
		return err
	})
	if err != nil || looks == 0 {
		t.Fatalf("%d events, %v", looks, err)
	}
}

func TestSlicesOfTimeAndStepsGiveEqualTokens(t *testing.T) {
	ctx, whole, sliced, early := context.Background(), newDecoder(t), newDecoder(t), newDecoder(t)
	if err := whole.Run(ctx, nil); err != nil {
		t.Fatal(err)
	}
	slices0 := 1
	for must[int](t)(sliced.StepFor(ctx, 0, nil)) > 0 {
		slices0++
	}
	for range early.Steps(ctx) {
		break
	}
	for _, err := range early.Steps(ctx) {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := must[[]int32](t)(whole.IDs(0))
	for _, other := range []*dllm.Decoder{sliced, early} {
		if got := must[[]int32](t)(other.IDs(0)); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	states := must[[]dllm.State](t)(whole.States(0))
	if slices0 < 6 || len(states) != len(want) || slices.Contains(states, dllm.Masked) {
		t.Errorf("%d slices, states %v", slices0, states)
	}
}

func TestCloseWhileACallRuns(t *testing.T) {
	trainer, loader := newTrainer(t)
	err := trainer.Run(context.Background(), loader, 3, func(*dllm.Event) error { return trainer.Close() })
	if err != nil {
		t.Fatalf("the call ends as it would have: %v", err)
	}
	if _, err := trainer.Metric("step"); !errors.Is(err, dllm.ErrClosed) {
		t.Fatalf("%v", err)
	}
	var zero dllm.Model
	if _, err := zero.Config(); !errors.Is(err, dllm.ErrClosed) || zero.Close() != nil || !zero.Closed() {
		t.Fatalf("%v", err)
	}
}

func TestManyGoroutines(t *testing.T) {
	all := must[*tiny.Tiny](t)(shared())
	want := newDecoder(t)
	if err := want.Run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	ids := must[[]int32](t)(want.IDs(0))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			decoder, err := all.Decoder()
			if err != nil {
				t.Error(err)
				return
			}
			reading := make(chan struct{})
			go func() { // what only reads may be called meanwhile, a close too
				defer close(reading)
				for !decoder.Closed() {
					_, _ = decoder.IDs(0)
					_, _ = decoder.Metric(0, "open")
				}
			}()
			for _, err := range decoder.Steps(context.Background()) {
				if err != nil {
					t.Error(err)
				}
			}
			if got, err := decoder.IDs(0); err != nil || !slices.Equal(got, ids) {
				t.Errorf("%v %v", got, err)
			}
			_ = decoder.Close()
			<-reading
		})
	}
	group.Wait()
}

func TestTheLogGoesToALogger(t *testing.T) {
	all := must[*tiny.Tiny](t)(shared())
	var lines strings.Builder
	// Training widens weights in blocks, and says so.
	widened := func() {
		model := must[*dllm.Model](t)(all.NewModel(dllm.Set("dtype", "q8_0")))
		defer func() { _ = model.Close() }()
		objective := must[*dllm.Objective](t)(dllm.NewObjective("mdlm", nil))
		_ = must[*dllm.Trainer](t)(dllm.NewTrainer(model, objective)).Close()
	}
	logger := slog.New(slog.NewTextHandler(&lines, nil))
	if err := dllm.LogToLogger(logger, slog.LevelWarn); err != nil {
		t.Fatal(err)
	}
	widened()
	if err := dllm.LogTo(dllm.LogNone, slog.LevelWarn); err != nil {
		t.Fatal(err)
	}
	widened()
	if got := lines.String(); strings.Count(got, "q8_0") != 1 || !strings.Contains(got, "level=WARN") {
		t.Fatalf("%q", got)
	}
}
