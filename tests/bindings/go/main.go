// The ten points of ../scenario.md, and the hashes of ../tokens.txt.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"dllm"
	"dllm/internal/tiny"
)

var (
	background = context.Background()
	hashes     []string
)

// must ends the scenario with the first thing that does not hold.
func must(holds bool, format string, arguments ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, format+"\n", arguments...)
		os.Exit(1)
	}
}

func get[T any](value T, err error) T {
	must(err == nil, "%v", err)
	return value
}

func done(err error) { must(err == nil, "%v", err) }

func remember(name string, ids []int32) {
	hash := fnv.New64a()
	done(binary.Write(hash, binary.LittleEndian, ids))
	hashes = append(hashes, fmt.Sprintf("%s %016x", name, hash.Sum64()))
}

func version(*tiny.Tiny) {
	must(get(dllm.ABIVersion()) == 1, "the ABI is not 1")
	number := get(dllm.Version())
	must(regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(number), "version %s", number)
	must(slices.Contains(get(dllm.Names("objective")), "mdlm"), "no objective mdlm")
}

func option(t *tiny.Tiny) {
	_, err := dllm.NewDecoder(t.Model, dllm.Set("stepz", 4))
	var problem *dllm.Error
	must(errors.Is(err, dllm.NotFound) && errors.As(err, &problem), "%v", err)
	must(strings.Contains(problem.Message, "stepz") && strings.Contains(err.Error(), "steps"), "%v", err)
}

func load(t *tiny.Tiny) {
	folder := get(os.MkdirTemp("", "dllm"))
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model")
	done(t.Model.Save(background, path))
	loaded := get(dllm.LoadModel(background, t.Engine, path))
	defer loaded.Close()
	for _, name := range get(loaded.ParamNames()) {
		mine, saved := get(t.Model.Param(name)), get(loaded.Param(name))
		must(slices.Equal(get(mine.Bytes()), get(saved.Bytes())), "%s differs", name)
	}
	_, err := dllm.LoadModel(background, t.Engine, filepath.Join(folder, "nowhere"))
	must(errors.Is(err, dllm.NotFound) && errors.Is(err, fs.ErrNotExist), "%v", err)
	must(strings.Contains(err.Error(), "nowhere"), "%v", err)
}

func encode(t *tiny.Tiny) {
	text := "the cat sat on the möön"
	must(get(t.Tokenizer.Decode(get(t.Tokenizer.Encode(text)))) == text, "%s changed", text)
	remember("encode", get(t.Tokenizer.Encode("the cat sat on the mat")))
	answer(t)
}

// answer shows a text while it is decided, up to a stop text.
func answer(t *tiny.Tiny) {
	text := "the cät sat. User: no"
	ids := get(t.Tokenizer.Encode(text))
	answer := get(dllm.NewAnswer(t.Tokenizer, dllm.Set("stop_texts", []string{". User:"})))
	defer answer.Close()
	states, shown, end := make([]dllm.State, len(ids)), "", dllm.AnswerOpen
	for i := 0; end == dllm.AnswerOpen; i++ {
		states[i] = dllm.Final
		end = get(answer.Update(ids, states))
		shown += get(answer.Next())
	}
	must(end == dllm.AnswerStopText && shown == "the cät sat" && get(answer.Text()) == shown, "%q, %v", shown, end)
	for i := range states {
		states[i] = dllm.Final
	}
	get(answer.Update(ids, states))
	cells := get(answer.Cells())
	must(len(cells) == len(ids) && strings.Join(cells, "") == text, "%q", cells)
	_, err := answer.Update(ids, states[1:])
	must(errors.Is(err, dllm.InvalidArgument), "%v", err)
}

// decodeTwice decodes with a callback and step by step, and compares.
func decodeTwice(t *tiny.Tiny, name string, options ...dllm.Option) {
	pushed, pulled := get(t.Decoder(options...)), get(t.Decoder(options...))
	defer pushed.Close()
	defer pulled.Close()
	steps := 0
	done(pushed.Run(background, func(event *dllm.Event) error {
		if event.Kind() == dllm.EventDecodeStep {
			steps++
		}
		return nil
	}))
	must(steps > 1, "%d steps", steps)
	for _, err := range pulled.Steps(background) {
		done(err)
	}
	ids := get(pushed.IDs(0))
	must(slices.Equal(ids, get(pulled.IDs(0))), "run and steps differ")
	remember(name, ids)
}

func decode(t *tiny.Tiny) { decodeTwice(t, "fresh") }

func train(t *tiny.Tiny) {
	trainer := get(dllm.NewTrainer(t.Model, get(dllm.NewObjective("mdlm", nil)), dllm.Set("lr", 3e-3)))
	defer trainer.Close()
	var losses []float64
	done(trainer.Run(background, t.Loader, 10, func(event *dllm.Event) error {
		if loss, ok := event.Float("loss"); ok && event.Kind() == dllm.EventTrainStep {
			losses = append(losses, loss)
		}
		return nil
	}))
	must(len(losses) == 10 && losses[9] < losses[0], "losses %v", losses)
	decodeTwice(t, "trained", dllm.Set("temperature", 0.8))
}

func cancel(t *tiny.Tiny) {
	trainer := get(dllm.NewTrainer(get(t.NewModel()), get(dllm.NewObjective("mdlm", nil))))
	defer trainer.Close()
	ctx, stop := context.WithCancel(background)
	started := make(chan struct{}, 1)
	go func() {
		<-started
		stop()
	}()
	err := trainer.Run(ctx, t.Loader, 1_000_000, func(*dllm.Event) error {
		select {
		case started <- struct{}{}:
		default:
		}
		return nil
	})
	must(errors.Is(err, dllm.Cancelled) && errors.Is(err, context.Canceled), "%v", err)
	before := get(trainer.Metric("step"))
	done(trainer.Run(background, t.Loader, 1, nil))
	must(get(trainer.Metric("step")) == before+1, "the trainer does not go on")
}

func callback(t *tiny.Tiny) {
	decoder := get(t.Decoder())
	defer decoder.Close()
	mine := errors.New("mine")
	err := decoder.Run(background, func(*dllm.Event) error { return mine })
	must(err == mine, "%v", err)
	func() {
		defer func() { must(recover() == any(mine), "the panic did not come out") }()
		_ = decoder.Run(background, func(*dllm.Event) error { panic(mine) })
	}()
	done(decoder.Run(background, nil))
	must(get(decoder.Metric(-1, "open")) == 0, "the decoder did not go on")
}

func closing(*tiny.Tiny) {
	t := get(tiny.New())
	decoder := get(t.Decoder())
	done(t.Engine.Close())
	done(t.Model.Close())
	done(decoder.Run(background, nil))
	done(decoder.Close())
	done(decoder.Close())
	_, err := decoder.Step(background)
	must(errors.Is(err, dllm.ErrClosed), "%v", err)
	_, err = t.Decoder()
	must(errors.Is(err, dllm.ErrClosed), "%v", err)
}

// resident is the memory of the process in bytes.
func resident() int {
	words := strings.Fields(string(get(os.ReadFile("/proc/self/statm"))))
	return get(strconv.Atoi(words[1])) * os.Getpagesize()
}

func thousand(t *tiny.Tiny) {
	make1000 := func(count int) {
		for i := range count {
			batch := get(dllm.NewRows([]int32{int32(i % 100), 1, 2}))
			task, decoder := get(dllm.NewTask()), get(dllm.NewDecoder(t.Model))
			done(batch.Close())
			done(task.Close())
			done(decoder.Close())
		}
	}
	make1000(50)
	before := resident()
	make1000(1000)
	grown := resident() - before
	must(grown < 20<<20, "memory grew by %d bytes", grown)
}

func main() {
	t := get(tiny.New())
	points := []struct {
		name string
		run  func(*tiny.Tiny)
	}{{"version", version}, {"option", option}, {"load", load}, {"encode", encode}, {"decode", decode}, {"train", train},
		{"cancel", cancel}, {"callback", callback}, {"close", closing}, {"thousand", thousand}}
	for i, point := range points {
		point.run(t)
		fmt.Printf("point %d %s ok\n", i+1, point.name)
	}
	fmt.Println(strings.Join(hashes, "\n"))
}
