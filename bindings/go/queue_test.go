package dllm_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"dllm"
)

var sharedQueue = sync.OnceValues(func() (*dllm.Queue, error) {
	return dllm.LoadQueue(context.Background(), stories, dllm.QueueOptions{Slots: dllm.Ptr(3)})
})

func newQueue(t *testing.T) *dllm.Queue {
	t.Helper()
	if _, err := os.Stat(stories); err != nil {
		t.Skip("the model of the checkout is not here")
	}
	return must[*dllm.Queue](t)(sharedQueue())
}

// long is a request that outlives the calls of a test.
var long = dllm.RequestOptions{Length: dllm.Ptr(200), Steps: dllm.Ptr(200)}

type queueState struct{ Waiting, Decoding, Over int }

func stateOf(t *testing.T, q *dllm.Queue) (now queueState) {
	t.Helper()
	if err := json.Unmarshal(must[json.RawMessage](t)(q.Describe()), &now); err != nil {
		t.Fatal(err)
	}
	return now
}

func wantEmptyQueue(t *testing.T, q *dllm.Queue) {
	t.Helper()
	if now := stateOf(t, q); now != (queueState{}) {
		t.Errorf("a request is left: %+v", now)
	}
}

func TestQueuedTextsAreThoseOfAGenerator(t *testing.T) {
	q, ctx := newQueue(t), context.Background()
	var all sync.WaitGroup
	for _, client := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			for _, each := range textCases(t) {
				how := dllm.SubmissionOptions{Client: client, Priority: dllm.Ptr(1)}
				if made, err := q.Generate(ctx, each.prompt(), each.Settings, how); err != nil || made.Whole != each.Expect {
					t.Errorf("%s: %v, %v", each.Name, made, err)
				}
			}
		})
	}
	all.Wait()
	wantEmptyQueue(t, q)
}

func TestQueuedPiecesAreTheText(t *testing.T) {
	q, ctx := newQueue(t), context.Background()
	for _, each := range textCases(t) {
		ticket := must[*dllm.Ticket](t)(q.Submit(ctx, each.prompt(), each.Settings))
		var text strings.Builder
		for piece, err := range ticket.Pieces(ctx) {
			if err != nil {
				t.Fatalf("%s: %v", each.Name, err)
			}
			text.WriteString(piece.Text)
		}
		made, err := ticket.Generation(ctx)
		if err != nil || made.Whole != each.Expect || text.String() != made.Text {
			t.Errorf("%s: the pieces are %q, the answer %q, %v", each.Name, text.String(), made, err)
		}
	}
	for piece, err := range must[*dllm.Ticket](t)(q.Submit(ctx, "The sun", long)).Pieces(ctx) {
		if err != nil || !strings.Contains(piece.Canvas, "<mask") {
			t.Errorf("%+v, %v", piece, err)
		}
		break
	}
	wantEmptyQueue(t, q)
}

func TestACancelEndsOneQueuedRequest(t *testing.T) {
	q, ctx := newQueue(t), context.Background()
	ticket, other := must[*dllm.Ticket](t)(q.Submit(ctx, "The sun", long)), must[*dllm.Ticket](t)(q.Submit(ctx, "The sun", short))
	time.AfterFunc(20*time.Millisecond, func() { _ = ticket.Cancel() })
	if made, err := ticket.Generation(ctx); !errors.Is(err, dllm.Cancelled) {
		t.Errorf("%v, %v", made, err)
	}
	for piece, err := range ticket.Pieces(ctx) {
		if !errors.Is(err, dllm.Cancelled) {
			t.Errorf("%+v, %v", piece, err)
		}
	}
	alone := must[*dllm.Generation](t)(newGenerator(t).Generate(ctx, "The sun", short))
	if made, err := other.Generation(ctx); err != nil || made.Text != alone.Text {
		t.Errorf("%v, %v", made, err)
	}
	_ = other.Close()
	if _, err := other.Text("completion"); !errors.Is(err, dllm.NotFound) {
		t.Error(err)
	}
	wantEmptyQueue(t, q)
}

func TestAContextEndsTheWaitAlone(t *testing.T) {
	q := newQueue(t)
	ticket := must[*dllm.Ticket](t)(q.Submit(context.Background(), "The sun", long))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := ticket.Generation(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, dllm.DeadlineExceeded) {
		t.Error(err)
	}
	if isOver, err := ticket.Wait(context.Background(), 0); isOver || err != nil {
		t.Error(isOver, err)
	}
	if _, err := q.Generate(ctx, "The sun", long); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	late := dllm.SubmissionOptions{Timeout: dllm.Ptr(0.01)}
	if _, err := q.Generate(context.Background(), "The sun", long, late); !errors.Is(err, dllm.DeadlineExceeded) {
		t.Error(err)
	}
	_ = ticket.Close()
	wantEmptyQueue(t, q)
}

func TestAnErrorOfOneQueuedRequest(t *testing.T) {
	q, ctx := newQueue(t), context.Background()
	all := make([]int, must[*dllm.Tokenizer](t)(q.Tokenizer()).Len())
	for i := range all {
		all[i] = i
	}
	good := must[*dllm.Ticket](t)(q.Submit(ctx, "The sun", short))
	if _, err := q.Generate(ctx, "The sun", short, dllm.RequestOptions{Suppress: all}); err == nil || errors.Is(err, dllm.Cancelled) {
		t.Error(err)
	}
	alone := must[*dllm.Generation](t)(newGenerator(t).Generate(ctx, "The sun", short))
	if made, err := good.Generation(ctx); err != nil || made.Text != alone.Text {
		t.Errorf("%v, %v", made, err)
	}
	_ = good.Close()
	for _, wrong := range []dllm.Option{dllm.Set("temprature", 1), dllm.Set("priority", 2000), dllm.Set("length", -1)} {
		if _, err := q.Submit(ctx, "The sun", wrong); !errors.Is(err, dllm.NotFound) && !errors.Is(err, dllm.InvalidArgument) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	if _, err := dllm.LoadQueue(ctx, stories, dllm.Set("slot", 2)); err == nil || !strings.Contains(err.Error(), "did you mean slots?") {
		t.Error(err)
	}
	wantEmptyQueue(t, q)
}

func TestLimitsDrainAndCloseOfAQueue(t *testing.T) {
	shared, ctx := newQueue(t), context.Background()
	model, tokenizer := must[*dllm.Model](t)(shared.Model()), must[*dllm.Tokenizer](t)(shared.Tokenizer())
	q := must[*dllm.Queue](t)(dllm.NewQueue(model, tokenizer, dllm.QueueOptions{Slots: dllm.Ptr(1), Waiting: dllm.Ptr(1)}))
	first := must[*dllm.Ticket](t)(q.Submit(ctx, "The sun", long))
	for seen := int64(0); stateOf(t, q).Decoding == 0; {
		seen = must[int64](t)(q.Wait(ctx, seen))
	}
	second := must[*dllm.Ticket](t)(q.Submit(ctx, "The sun", short))
	if _, err := q.Submit(ctx, "The sun"); !errors.Is(err, dllm.ResourceExhausted) {
		t.Error(err)
	}
	_ = first.Close()
	if err := q.Drain(ctx); err != nil {
		t.Error(err)
	}
	if isOver, err := second.Wait(ctx, 0); !isOver || err != nil {
		t.Error(isOver, err)
	}
	if _, err := q.Submit(ctx, "The sun"); !errors.Is(err, dllm.Unavailable) {
		t.Error(err)
	}
	_ = q.Close()
	if _, err := second.Generation(ctx); !errors.Is(err, dllm.ErrClosed) {
		t.Error(err)
	}
	_ = second.Close()
}

func TestATicketThatIsForgottenRemovesItsRequest(t *testing.T) {
	q := newQueue(t)
	must[*dllm.Ticket](t)(q.Submit(context.Background(), "The sun", long))
	for end := time.Now().Add(time.Minute); stateOf(t, q) != (queueState{}) && time.Now().Before(end); {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	wantEmptyQueue(t, q)
}
