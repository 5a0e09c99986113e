package dllm_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dllm"
	"dllm/internal/tiny"
)

// rankTwo chooses two matrices of 64 x 64.
var rankTwo = dllm.AdapterOptions{Rank: dllm.Ptr(2), Targets: []string{"q", "v"}, Layers: []string{"1"}}

// logitsOf are the results of a model for six tokens.
func logitsOf(t *testing.T, model *dllm.Model) []float32 {
	t.Helper()
	rows := must[*dllm.Batch](t)(dllm.NewRows([]int32{5, 6, 7, 8, 9, 10}))
	result := must[*dllm.Batch](t)(model.Forward(context.Background(), rows))
	return must[[]float32](t)(dllm.ReadArray[float32](result, "logits"))
}

// distance is the largest difference of two results.
func distance(a, b []float32) (most float64) {
	for i := range a {
		most = max(most, math.Abs(float64(a[i]-b[i])))
	}
	return most
}

func wantAdapters(t *testing.T, model *dllm.Model, want ...dllm.Adapter) {
	t.Helper()
	got := must[[]dllm.Adapter](t)(model.Adapters())
	same := func(a, b dllm.Adapter) bool {
		return len(a.ModulesToSave) == len(b.ModulesToSave) && fmt.Sprint(a) == fmt.Sprint(b)
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// adapted is a model with a trained adapter of the default name, and its results before and after the training.
func adapted(t *testing.T) (model *dllm.Model, plain, trained []float32) {
	t.Helper()
	all, ctx := must[*tiny.Tiny](t)(shared()), context.Background()
	model = must[*dllm.Model](t)(all.NewModel())
	plain = logitsOf(t, model)
	if err := model.AddAdapter(ctx, dllm.DefaultAdapter, rankTwo); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(logitsOf(t, model), plain) {
		t.Error("a new adapter changes results")
	}
	objective := must[*dllm.Objective](t)(dllm.NewObjective("mdlm", nil))
	loader := must[*dllm.Loader](t)(dllm.NewLoader(all.Data, dllm.Options{"batch": 4, "length": 32, "epochs": 0}))
	trainer := must[*dllm.Trainer](t)(dllm.NewTrainer(model, objective, dllm.Options{"lr": 0.02, "warmup": 0}))
	if err := trainer.Run(ctx, loader, 4, nil); err != nil {
		t.Fatal(err)
	}
	_ = trainer.Close()
	trained = logitsOf(t, model)
	if distance(trained, plain) < 1e-5 {
		t.Fatal("the training changes nothing")
	}
	return model, plain, trained
}

func TestAnAdapterIsListed(t *testing.T) {
	all, ctx := must[*tiny.Tiny](t)(shared()), context.Background()
	model := must[*dllm.Model](t)(all.NewModel())
	wantAdapters(t, model)
	three := dllm.Options{"rank": 3, "alpha": 4.5, "rslora": true, "targets": []string{"q"}}
	for _, each := range []struct {
		name   string
		option dllm.Option
	}{{"b", rankTwo}, {"a", three}} {
		if err := model.AddAdapter(ctx, each.name, each.option); err != nil {
			t.Fatal(err)
		}
	}
	both := []dllm.Adapter{{Name: "b", Kind: "lora", Rank: 2, Alpha: 4, Scale: 1, Modules: 2, Params: 512, Bytes: 2048},
		{Name: "a", Kind: "lora", Rank: 3, Alpha: 4.5, Rslora: true, Scale: 1, Modules: 2, Params: 768, Bytes: 3072}}
	wantAdapters(t, model, both...)
	if err := model.AddAdapter(ctx, "b", rankTwo); !errors.Is(err, dllm.AlreadyExists) {
		t.Errorf("a second adapter of the name: %v", err)
	}
	for _, wrong := range []struct {
		name   string
		option dllm.Option
		code   dllm.Code
	}{
		{"c", dllm.AdapterOptions{Targets: []string{"no_such"}}, dllm.NotFound},
		{"c", dllm.AdapterOptions{Targets: []string{"embed_tokens"}}, dllm.Unimplemented},
		{"c", dllm.Set("rnk", 2), dllm.NotFound},
		{"c/d", rankTwo, dllm.InvalidArgument},
	} {
		if err := model.AddAdapter(ctx, wrong.name, wrong.option); !errors.Is(err, wrong.code) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	wantAdapters(t, model, both...)
	if err := model.MergeAdapters(ctx); err != nil {
		t.Error(err)
	}
	wantAdapters(t, model)
}

func TestAnAdapterIsTrainedSavedAndMerged(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "adapter")
	model, plain, trained := adapted(t)
	task := must[*dllm.Task](t)(dllm.NewTask())
	if err := model.SaveAdapter(dllm.WithTask(ctx, task), path, dllm.DefaultAdapter); err != nil {
		t.Fatal(err)
	}
	if done, total := task.Progress(); total < 2048 || done != total {
		t.Errorf("%d of %d bytes", done, total)
	}
	if err := model.SaveAdapter(ctx, path, dllm.DefaultAdapter); !errors.Is(err, dllm.AlreadyExists) {
		t.Errorf("a second save: %v", err)
	}
	if err := model.RemoveAdapter(dllm.DefaultAdapter); err != nil {
		t.Fatal(err)
	}
	wantAdapters(t, model)
	if !slices.Equal(logitsOf(t, model), plain) {
		t.Error("a removed adapter changes results")
	}
	if err := model.AddNetwork(model, dllm.Teacher); err != nil {
		t.Fatal(err)
	}
	if err := model.AddNetwork(model, dllm.Teacher); !errors.Is(err, dllm.AlreadyExists) {
		t.Errorf("a second network: %v", err)
	}
	if err := model.RemoveNetwork(dllm.Teacher); err != nil {
		t.Fatal(err)
	}
	if err := model.RemoveNetwork(dllm.Teacher); !errors.Is(err, dllm.NotFound) {
		t.Errorf("a network that is gone: %v", err)
	}
	if err := model.LoadAdapter(ctx, path, "again"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(logitsOf(t, model), trained) {
		t.Error("a loaded adapter is another one")
	}
	if err := model.SetAdapterScale("again", 0.5); err != nil {
		t.Fatal(err)
	}
	wantAdapters(t, model,
		dllm.Adapter{Name: "again", Kind: "lora", Rank: 2, Alpha: 4, Scale: 0.5, Modules: 2, Params: 512, Bytes: 2048})
	scaled := logitsOf(t, model)
	if distance(scaled, plain) < 1e-6 || distance(scaled, trained) < 1e-6 {
		t.Error("the scale changes nothing")
	}
	if err := model.MergeAdapter(ctx, "again"); err != nil {
		t.Fatal(err)
	}
	wantAdapters(t, model)
	if merged := distance(logitsOf(t, model), scaled); merged > 1e-4 {
		t.Errorf("the merge changes results by %v", merged)
	}
}

func TestErrorsOfAdapters(t *testing.T) {
	ctx, folder := context.Background(), t.TempDir()
	model, _, trained := adapted(t)
	listed := must[[]dllm.Adapter](t)(model.Adapters())
	cancelled := must[*dllm.Task](t)(dllm.NewTask())
	cancelled.Cancel()
	ended := dllm.WithTask(ctx, cancelled)
	none := filepath.Join(folder, "none")
	if err := model.SaveAdapter(ctx, filepath.Join(folder, "saved"), dllm.DefaultAdapter); err != nil {
		t.Fatal(err)
	}
	for what, each := range map[string]struct {
		err  error
		code dllm.Code
	}{
		"save":          {model.SaveAdapter(ctx, none, "defautl"), dllm.NotFound},
		"load":          {model.LoadAdapter(ctx, none, "other"), dllm.NotFound},
		"load again":    {model.LoadAdapter(ctx, filepath.Join(folder, "saved"), dllm.DefaultAdapter), dllm.AlreadyExists},
		"merge":         {model.MergeAdapter(ctx, "defautl"), dllm.NotFound},
		"merge nothing": {model.MergeAdapter(ctx, ""), dllm.NotFound},
		"remove":        {model.RemoveAdapter("defautl"), dllm.NotFound},
		"scale":         {model.SetAdapterScale("defautl", 1), dllm.NotFound},
		"scale of NaN":  {model.SetAdapterScale(dllm.DefaultAdapter, math.NaN()), dllm.InvalidArgument},
		"0 byte":        {model.RemoveAdapter("a\x00b"), dllm.InvalidArgument},
		"cancelled add": {model.AddAdapter(ended, "other", rankTwo), dllm.Cancelled},
		"cancelled load": {model.LoadAdapter(ended, filepath.Join(folder, "saved"), "other"),
			dllm.Cancelled},
		"cancelled save":      {model.SaveAdapter(ended, none, dllm.DefaultAdapter), dllm.Cancelled},
		"cancelled merge":     {model.MergeAdapter(ended, dllm.DefaultAdapter), dllm.Cancelled},
		"cancelled merge all": {model.MergeAdapters(ended), dllm.Cancelled},
	} {
		if !errors.Is(each.err, each.code) {
			t.Errorf("%s: %v", what, each.err)
		}
	}
	var problem *dllm.Error
	if err := model.RemoveAdapter("defautl"); !errors.As(err, &problem) || !strings.Contains(problem.Hint, "default") {
		t.Errorf("%v", err)
	}
	wantAdapters(t, model, listed...)
	if !slices.Equal(logitsOf(t, model), trained) {
		t.Error("a call that failed changes results")
	}
	_ = model.Close()
	if _, err := model.Adapters(); !errors.Is(err, dllm.ErrClosed) {
		t.Errorf("%v", err)
	}
}
