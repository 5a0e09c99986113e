// Command server decodes over HTTP: POST /decode {"prompt": "...", "seed": 1, "options": {"steps": 32}} answers
// with server-sent events, one per step. A client that leaves ends its decoding; SIGTERM lets the running requests
// finish.
//
//	go run ./examples/server -model runs/quickstart -listen localhost:8080
//	curl -N localhost:8080/decode -d '{"prompt": "The wise man"}'
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"dllm"
)

var errStopping = errors.New("the server stops")

func main() {
	path := flag.String("model", "runs/quickstart", "folder of a model with its tokenizer, or a GGUF file")
	address := flag.String("listen", "localhost:8080", "address")
	most := flag.Int("most", 4, "requests that decode together")
	threads := flag.Int("threads", 0, "threads of the engine; 0: its default")
	grace := flag.Duration("grace", 10*time.Second, "how long running requests may go on after SIGTERM")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *path, *address, *most, *threads, *grace); err != nil {
		slog.Error("server", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path, address string, most, threads int, grace time.Duration) error {
	var settings dllm.Options
	if threads > 0 {
		settings = dllm.Options{"threads": threads}
	}
	engine, err := dllm.NewEngine(settings)
	if err != nil {
		return err
	}
	defer engine.Close()
	model, err := dllm.LoadModel(ctx, engine, path)
	if err != nil {
		return err
	}
	defer model.Close()
	tokenizer, err := dllm.LoadTokenizer(path)
	if err != nil {
		return err
	}
	defer tokenizer.Close()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	slog.Info("listening", "address", listener.Addr().String())
	return serve(ctx, listener, newService(model, tokenizer, most).routes(), grace)
}

// serve answers requests until ctx is done. Then no new ones are taken, and those that still run after the grace
// are cancelled.
func serve(ctx context.Context, listener net.Listener, routes http.Handler, grace time.Duration) error {
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return running }}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	slog.Info("stopping")
	limit, done := context.WithTimeout(running, grace)
	defer done()
	err := server.Shutdown(limit)
	if errors.Is(err, context.DeadlineExceeded) {
		cancel(errStopping)
		limit, done := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer done()
		err = server.Shutdown(limit)
	}
	return err
}
