package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"dllm"
	"dllm/internal/tiny"
)

const patience = 30 * time.Second

// running is a server of a tiny model on a free port; stop is a SIGTERM to this process.
type running struct {
	service *service
	url     string
	ended   chan error
}

func start(t *testing.T, most int, grace time.Duration, onStep func(context.Context)) *running {
	t.Helper()
	one := dllm.Must(tiny.New())
	r := &running{service: newService(one.Model, one.Tokenizer, most), ended: make(chan error, 1)}
	if onStep != nil {
		r.service.onStep = onStep
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + listener.Addr().String()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	t.Cleanup(stop)
	go func() { r.ended <- serve(ctx, listener, r.service.routes(), grace) }()
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

func (r *running) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("the server did not stop")
	}
}

// post begins a request. Without an error the caller closes its body.
func (r *running) post(ctx context.Context, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, "POST", r.url+"/decode", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// events reads the stream: the name and the data of the last event, and how many there were.
func events(response *http.Response) (name string, last progress, count int, err error) {
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "event: "); found {
			name = text
		}
		if text, found := strings.CutPrefix(lines.Text(), "data: "); found {
			count++
			if err := json.Unmarshal([]byte(text), &last); err != nil {
				return name, last, count, err
			}
		}
	}
	return name, last, count, lines.Err()
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

const question = `{"prompt": "the cat", "seed": 7, "options": {"steps": 6, "gen_length": 12}}`

func TestTheStreamEndsWithTheTextOfADecoder(t *testing.T) {
	r := start(t, 2, patience, nil)
	response := dllm.Must(r.post(context.Background(), question))
	defer response.Body.Close()
	name, last, count, err := events(response)
	if err != nil || name != "done" || count != 6 || last.Open != 0 || last.Step != 6 {
		t.Fatalf("%s %+v, %d events, %v", name, last, count, err)
	}
	decoder := dllm.Must(dllm.NewDecoder(r.service.model, dllm.Options{"steps": 6, "gen_length": 12}))
	prompt := dllm.Must(r.service.tokenizer.Encode("the cat"))
	if err := decoder.Start(prompt, 7); err != nil {
		t.Fatal(err)
	}
	if err := decoder.Run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	ids := dllm.Must(decoder.IDs(0))
	if want := dllm.Must(r.service.tokenizer.Decode(ids[len(prompt):])); last.Text != want {
		t.Errorf("%q, want %q", last.Text, want)
	}
	for body, status := range map[string]int{`{"prompt": 1}`: 400, `{"options": {"steps": -1}}`: 400, `{"promt": ""}`: 400} {
		response := dllm.Must(r.post(context.Background(), body))
		_ = response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("%s: %s", body, response.Status)
		}
	}
	r.stop(t)
	r.wait(t)
}

func TestAClientThatLeavesEndsItsDecoding(t *testing.T) {
	r := start(t, 1, patience, func(ctx context.Context) { <-ctx.Done() })
	ctx, leave := context.WithCancel(context.Background())
	response := dllm.Must(r.post(ctx, question))
	defer response.Body.Close()
	full := dllm.Must(r.post(context.Background(), question))
	_ = full.Body.Close()
	if full.StatusCode != http.StatusServiceUnavailable || full.Header.Get("Retry-After") == "" {
		t.Errorf("a request too many: %s", full.Status)
	}
	leave()
	until(t, "the decoding goes on", func() bool { return r.service.cancelled.Load() == 1 })
	until(t, "the slot stays taken", func() bool { return len(r.service.slots) == 0 })
	r.stop(t)
	r.wait(t)
}

func TestSIGTERMLetsRunningRequestsFinish(t *testing.T) {
	first, goOn := make(chan struct{}, 100), make(chan struct{})
	r := start(t, 1, patience, func(context.Context) {
		first <- struct{}{}
		<-goOn
	})
	finished := make(chan string, 1)
	go func() {
		response, err := r.post(context.Background(), question)
		if err != nil {
			finished <- err.Error()
			return
		}
		defer response.Body.Close()
		name, last, _, err := events(response)
		finished <- fmt.Sprint(name, " ", last.Open, " ", err)
	}()
	<-first
	r.stop(t)
	until(t, "new requests are still taken", func() bool {
		response, err := http.Get(r.url + "/status")
		if err == nil {
			_ = response.Body.Close()
		}
		return err != nil
	})
	close(goOn)
	if got := <-finished; got != "done 0 <nil>" {
		t.Error(got)
	}
	r.wait(t)
	if r.service.decoded.Load() != 1 {
		t.Errorf("%d decoded", r.service.decoded.Load())
	}
}

func TestTheGraceEnds(t *testing.T) {
	began := make(chan struct{}, 100)
	r := start(t, 1, 20*time.Millisecond, func(ctx context.Context) {
		began <- struct{}{}
		<-ctx.Done()
	})
	response := dllm.Must(r.post(context.Background(), question))
	defer response.Body.Close()
	<-began
	r.stop(t)
	_, _, _, _ = events(response)
	until(t, "the request goes on", func() bool { return r.service.cancelled.Load() == 1 })
	select {
	case <-r.ended:
	case <-time.After(patience):
		t.Fatal("the server did not stop")
	}
}
