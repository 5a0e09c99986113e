package dllm_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"dllm"
)

// ownGenerator is a generator that a test may close.
func ownGenerator(t *testing.T) *dllm.Generator {
	t.Helper()
	g := newGenerator(t)
	model, tokenizer := must[*dllm.Model](t)(g.Model()), must[*dllm.Tokenizer](t)(g.Tokenizer())
	own := must[*dllm.Generator](t)(dllm.NewGenerator(model, tokenizer))
	t.Cleanup(func() { _ = own.Close() })
	return own
}

// hold runs a call that has the turn until end is called, which returns the error of the call.
func hold(t *testing.T, g *dllm.Generator) (end func() error) {
	t.Helper()
	number := must[int](t)(g.Add(context.Background(), "The sun", short))
	running, release, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var first sync.Once
	go func() {
		over <- g.Run(context.Background(), func(*dllm.Event) error {
			first.Do(func() { close(running) })
			<-release
			return nil
		})
	}()
	<-running
	end = sync.OnceValue(func() error {
		close(release)
		err := <-over
		return errors.Join(err, g.Remove(number))
	})
	t.Cleanup(func() { _ = end() })
	return end
}

// within fails the test when a call does not return in time.
func within(t *testing.T, limit time.Duration, call func() error) error {
	t.Helper()
	over := make(chan error, 1)
	began := time.Now()
	go func() { over <- call() }()
	select {
	case err := <-over:
		if took := time.Since(began); took > limit {
			t.Errorf("the call took %v of %v", took, limit)
		}
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the call hangs")
		return nil
	}
}

// textOf is a text by one of the calls that decode: the way says which one.
func textOf(ctx context.Context, g *dllm.Generator, way int) (string, error) {
	settings := dllm.Options{"length": 8, "steps": 4, "temperature": 0.8, "seed": way}
	holes := dllm.Options{"steps": 4, "temperature": 0.8, "seed": way}
	switch way % 4 {
	case 0:
		made, err := g.Generate(ctx, "Once there was", settings)
		return fmt.Sprint(made), err
	case 1:
		made, err := g.Infill(ctx, "The<mask:3> was sad. Then<mask:5> came.", holes)
		return fmt.Sprint(made), err
	case 2:
		made, err := g.Batch(ctx, dllm.Prompts("Tom", "A cat"), settings)
		return fmt.Sprint(made), err
	}
	var text strings.Builder
	for piece, err := range g.Stream(ctx, "Mia", settings).Pieces() {
		if err != nil {
			return "", err
		}
		text.WriteString(piece.Text)
	}
	return text.String(), nil
}

func TestCallsOfManyGoroutinesRunOneAfterAnother(t *testing.T) {
	g, ctx := ownGenerator(t), context.Background()
	var want [16]string
	for i := range want {
		want[i] = must[string](t)(textOf(ctx, g, i))
	}
	var group sync.WaitGroup
	for i := range want {
		group.Go(func() {
			for range 3 {
				if text, err := textOf(ctx, g, i); err != nil || text != want[i] {
					t.Errorf("%d: %q, %v instead of %q", i, text, err, want[i])
				}
			}
		})
		group.Go(func() { // the calls of a loop of one's own
			number, err := g.Add(ctx, "The sun", short)
			if err == nil {
				err = g.Run(ctx, func(*dllm.Event) error { return nil })
			}
			if made, wrong := g.Generation(number); err != nil || wrong != nil || made.Finish != "full" {
				t.Errorf("%v, %v, %v", made, err, wrong)
			}
			if err := g.Remove(number); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	wantNoRequest(t, g)
}

func TestAContextEndsTheWaitForTheTurn(t *testing.T) {
	g := ownGenerator(t)
	end := hold(t, g)
	calls := map[string]func(context.Context) error{
		"Add":  func(ctx context.Context) error { _, err := g.Add(ctx, "The sun", short); return err },
		"Step": func(ctx context.Context) error { _, err := g.Step(ctx); return err },
		"Run":  func(ctx context.Context) error { return g.Run(ctx, nil) },
	}
	for way, name := range []string{"Generate", "Infill", "Batch", "Stream"} {
		calls[name] = func(ctx context.Context) error { _, err := textOf(ctx, g, way); return err }
	}
	const soon, limit = 20 * time.Millisecond, 120 * time.Millisecond
	for name, call := range calls {
		cause := errors.New("the client left")
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(soon, func() { cancel(cause) })
		err := within(t, limit, func() error { return call(ctx) })
		if !errors.Is(err, dllm.Cancelled) || !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("%s, cancelled: %v", name, err)
		}
		late, stop := context.WithTimeout(context.Background(), soon)
		err = within(t, limit, func() error { return call(late) })
		if !errors.Is(err, dllm.DeadlineExceeded) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, late: %v", name, err)
		}
		stop()
		task := must[*dllm.Task](t)(dllm.NewTask())
		time.AfterFunc(soon, task.Cancel)
		err = within(t, limit, func() error { return call(dllm.WithTask(context.Background(), task)) })
		if !errors.Is(err, dllm.Cancelled) || err.Error() != "dllm: the task was cancelled" {
			t.Errorf("%s, a cancelled task: %v", name, err)
		}
		timed := must[*dllm.Task](t)(dllm.NewTask())
		timed.SetDeadline(soon)
		err = within(t, limit, func() error { return call(dllm.WithTask(context.Background(), timed)) })
		if !errors.Is(err, dllm.DeadlineExceeded) || err.Error() != "dllm: the task's deadline has passed" {
			t.Errorf("%s, a late task: %v", name, err)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	wantNoRequest(t, g)
	if text, err := textOf(context.Background(), g, 0); err != nil || text == "" {
		t.Errorf("the generator does not go on: %q, %v", text, err)
	}
}

func TestADeadlineIsNamedInTheError(t *testing.T) {
	g := newGenerator(t)
	past, stop := context.WithTimeout(context.Background(), 0)
	defer stop()
	soon, stopSoon := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stopSoon()
	for _, ctx := range []context.Context{past, soon} { // before the call, and in it
		_, err := g.Generate(ctx, "Once", dllm.Options{"length": 400, "steps": 400})
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "dllm: the deadline of the context has passed" {
			t.Errorf("%v", err)
		}
	}
}

func TestACloseEndsTheWaitForTheTurn(t *testing.T) {
	g, ctx := ownGenerator(t), context.Background()
	end := hold(t, g)
	const waiting = 12
	errs := make(chan error, waiting)
	for i := range waiting {
		go func() {
			var err error
			switch {
			case i < 8:
				_, err = textOf(ctx, g, i)
			case i < 10:
				_, err = g.Text(0, "text")
			default:
				err = g.Remove(0)
			}
			errs <- err
		}()
	}
	time.Sleep(20 * time.Millisecond) // most of them wait now; the others find it closed
	if err := within(t, 100*time.Millisecond, g.Close); err != nil {
		t.Error(err)
	}
	for range waiting {
		if err := within(t, time.Second, func() error { return <-errs }); !errors.Is(err, dllm.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	if err := within(t, time.Second, end); !errors.Is(err, dllm.ErrClosed) { // of Remove; the run ended as it would have
		t.Errorf("%v", err)
	}
}

func TestStreamsTakeTurnsForTheirSteps(t *testing.T) {
	g, ctx := ownGenerator(t), context.Background()
	var want, got [3]string
	for i := range want {
		want[i] = must[string](t)(textOf(ctx, g, 4*i+3))
	}
	var next [3]func() (dllm.Piece, error, bool)
	for i := range next {
		settings := dllm.Options{"length": 8, "steps": 4, "temperature": 0.8, "seed": 4*i + 3}
		pull, stop := iter.Pull2(g.Stream(ctx, "Mia", settings).Pieces())
		defer stop()
		next[i] = pull
	}
	between := must[string](t)(textOf(ctx, g, 0))
	for open := true; open; {
		open = false
		for i := range next {
			piece, err, more := next[i]()
			if err != nil {
				t.Fatal(err)
			}
			got[i] += piece.Text
			open = open || more
		}
		if open { // a half-read stream does not have the turn
			text := ""
			if err := within(t, 10*time.Second, func() (err error) { text, err = textOf(ctx, g, 0); return err }); err != nil || text != between {
				t.Fatalf("%q, %v instead of %q", text, err, between)
			}
		}
	}
	if got != want {
		t.Errorf("%q instead of %q", got, want)
	}
	wantNoRequest(t, g)
}

// A run to the end with a callback takes the texts of all requests.
func TestAStreamKeepsTheTextsOfAnotherRun(t *testing.T) {
	g, ctx := ownGenerator(t), context.Background()
	want, got := must[string](t)(textOf(ctx, g, 3)), ""
	settings := dllm.Options{"length": 8, "steps": 4, "temperature": 0.8, "seed": 3}
	for piece, err := range g.Stream(ctx, "Mia", settings).Pieces() {
		if err != nil {
			t.Fatal(err)
		}
		got += piece.Text
		if err := g.Run(ctx, func(*dllm.Event) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if got != want {
		t.Errorf("%q instead of %q", got, want)
	}
}

func TestTheEndOfAStreamDoesNotWait(t *testing.T) {
	g := ownGenerator(t)
	next, stop := iter.Pull2(g.Stream(context.Background(), "Mia", short).Pieces())
	if _, err, ok := next(); err != nil || !ok {
		t.Fatal(err)
	}
	end := hold(t, g)
	_ = within(t, 100*time.Millisecond, func() error { stop(); return nil })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	wantNoRequest(t, g)
}

func TestACallInsideOfACallback(t *testing.T) {
	g, ctx := ownGenerator(t), context.Background()
	number := must[int](t)(g.Add(ctx, "The sun", short))
	events := 0
	inside := func(*dllm.Event) error {
		events++
		if _, err := g.Text(number, "canvas"); err != nil {
			t.Errorf("Text: %v", err)
		}
		if _, err := g.Generation(number); err != nil {
			t.Errorf("Generation: %v", err)
		}
		_, step := g.Step(ctx)
		_, add := g.Add(ctx, "A cat", short)
		_, generate := textOf(ctx, g, 0)
		_, stream := textOf(ctx, g, 3)
		for _, err := range []error{step, add, generate, stream, g.Run(ctx, nil), g.Remove(number)} {
			if !errors.Is(err, dllm.FailedPrecondition) {
				t.Errorf("%v", err)
			}
		}
		return nil
	}
	if err := within(t, 10*time.Second, func() error { return g.Run(ctx, inside) }); err != nil || events == 0 {
		t.Errorf("%v, %d events", err, events)
	}
	func() { // a panic ends the turn too
		defer func() { _ = recover() }()
		_ = g.Remove(number)
		number = must[int](t)(g.Add(ctx, "The sun", short))
		_ = g.Run(ctx, func(*dllm.Event) error { panic("mine") })
	}()
	if err := within(t, time.Second, func() error { return g.Remove(number) }); err != nil {
		t.Error(err)
	}
}
