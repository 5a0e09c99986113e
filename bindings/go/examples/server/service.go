package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"dllm"
)

// request is the body of POST /decode.
type request struct {
	Prompt  string  `json:"prompt"`
	Seed    int64   `json:"seed"`
	Options options `json:"options"`
}

// options are those of a decoder that a client may set.
type options struct {
	Steps       int     `json:"steps,omitzero"`
	Length      int     `json:"gen_length,omitzero"`
	Temperature float64 `json:"temperature,omitzero"`
	Policy      string  `json:"policy,omitzero"`
	// adapters of the model, as "math:0.7"
	Adapters []string `json:"adapters,omitempty"`
}

// progress is the data of one event of the answer: the tokens so far, without those still open.
type progress struct {
	Step int    `json:"step"`
	Open int    `json:"open"`
	Text string `json:"text"`
}

// service decodes with one model for many clients. A request has a decoder of its own.
type service struct {
	model     *dllm.Model
	tokenizer *dllm.Tokenizer
	slots     chan struct{} // one element per running request
	decoded   atomic.Int64
	cancelled atomic.Int64
	onStep    func(context.Context) // of tests: called after every step
}

func newService(model *dllm.Model, tokenizer *dllm.Tokenizer, most int) *service {
	return &service{model: model, tokenizer: tokenizer, slots: make(chan struct{}, most),
		onStep: func(context.Context) {}}
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /decode", s.decode)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]int64{"running": int64(len(s.slots)), "slots": int64(cap(s.slots)),
			"decoded": s.decoded.Load(), "cancelled": s.cancelled.Load()})
	})
	return mux
}

// decode streams server-sent events: one per step, then "done". The request's context ends the decoding.
func (s *service) decode(w http.ResponseWriter, r *http.Request) {
	var body request
	reader := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	reader.DisallowUnknownFields()
	if err := reader.Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, fmt.Sprintf("%d requests are running", cap(s.slots)), http.StatusServiceUnavailable)
		return
	}
	decoder, given, err := s.start(r.Context(), body)
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	defer decoder.Close()
	switch err := s.stream(w, r, decoder, given); {
	case err == nil:
		s.decoded.Add(1)
	case r.Context().Err() != nil:
		s.cancelled.Add(1)
		slog.Info("request ended early", "cause", context.Cause(r.Context()))
	default:
		slog.Error("decoding", "error", err)
		_ = send(w, "error", map[string]string{"message": err.Error()})
	}
}

// start makes a decoder with the prompt in slot 0, and returns the number of its tokens.
func (s *service) start(ctx context.Context, body request) (*dllm.Decoder, int, error) {
	ids, err := s.tokenizer.EncodeContext(ctx, body.Prompt)
	if err != nil {
		return nil, 0, err
	}
	decoder, err := dllm.NewDecoder(s.model, dllm.Fields(body.Options))
	if err != nil {
		return nil, 0, err
	}
	if err := decoder.Start(ids, body.Seed); err != nil {
		_ = decoder.Close()
		return nil, 0, err
	}
	return decoder, len(ids), nil
}

func (s *service) stream(w http.ResponseWriter, r *http.Request, decoder *dllm.Decoder, given int) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	now := progress{}
	for active, err := range decoder.Steps(r.Context()) {
		if err != nil {
			return err
		}
		now.Step++
		if now.Text, now.Open, err = s.answer(decoder, given); err != nil {
			return err
		}
		name := "step"
		if active == 0 {
			name = "done"
		}
		if err := send(w, name, now); err != nil {
			return err
		}
		s.onStep(r.Context())
	}
	return nil
}

// answer is the text of the decided positions behind the prompt, and how many are open.
func (s *service) answer(decoder *dllm.Decoder, given int) (string, int, error) {
	ids, err := decoder.IDs(0)
	if err != nil {
		return "", 0, err
	}
	states, err := decoder.States(0)
	if err != nil {
		return "", 0, err
	}
	decided, open := ids[:0], 0
	for i := given; i < len(ids); i++ {
		if states[i] == dllm.Masked {
			open++
			continue
		}
		decided = append(decided, ids[i])
	}
	text, err := s.tokenizer.Decode(decided)
	return text, open, err
}

func send(w http.ResponseWriter, name string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, dllm.InvalidArgument), errors.Is(err, dllm.NotFound), errors.Is(err, dllm.OutOfRange):
		return http.StatusBadRequest
	case errors.Is(err, dllm.ResourceExhausted):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
