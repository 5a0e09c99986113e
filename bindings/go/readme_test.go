package dllm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The code of README.md, as a user would build it: a module of its own, in an empty folder.
func TestTheCodeOfTheReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("builds five programs")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1)
	most := map[string]int{"generate": 5, "queue": 10, "hub": 5, "decode": 10, "train": 15}
	programs := []string{"generate", "queue", "hub", "decode", "train"} // in the order of the page
	if len(blocks) != len(programs) {
		t.Fatalf("README.md has %d blocks", len(blocks))
	}
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	module, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(module), "module dllm", "module readme", 1)
	write("go.mod", text+"\nrequire dllm v0.0.0\n\nreplace dllm => "+here+"\n")
	write("go.sum", string(sums))
	write("corpus.txt", strings.Repeat("the cat sat by the sea\nthe old man looked at the moon\n", 100))
	head := "package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\n\t\"dllm\"\n)\n\nfunc main() {\n"
	for i, program := range programs {
		if lines := strings.Count(string(blocks[i][1]), "\n"); lines > most[program] {
			t.Errorf("block %s has %d lines", program, lines)
		}
		write(program+"/main.go", head+string(blocks[i][1])+"}\n")
	}
	for _, program := range []string{"train", "generate", "queue", "hub", "decode"} { // the others load what train saved
		if program == "hub" {
			writeCache(t, filepath.Join(folder, "cache"), filepath.Join(folder, "runs", "first"))
		}
		command := exec.Command("go", "run", "./"+program) // go test puts its own go first on PATH
		command.Dir = folder
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", program, err, output)
		}
		if !strings.Contains(string(output), "<nil>") {
			t.Errorf("%s printed\n%s", program, output)
		}
	}
}

// writeCache makes a cache of the hub without a network, with the files of a model's folder as Qwen/Qwen3-0.6B.
func writeCache(t *testing.T, cache, model string) {
	t.Helper()
	repository, commit := filepath.Join(cache, "models--Qwen--Qwen3-0.6B"), strings.Repeat("c", 40)
	if err := os.CopyFS(filepath.Join(repository, "snapshots", commit), os.DirFS(model)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(repository, "refs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(repository, "refs", "main"), []byte(commit), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HF_HUB_CACHE", cache)
	t.Setenv("HF_HUB_OFFLINE", "1")
}
