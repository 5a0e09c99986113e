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
		t.Skip("builds two programs")
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
	if len(blocks) != 2 || strings.Count(string(blocks[0][1]), "\n") > 10 || strings.Count(string(blocks[1][1]), "\n") > 15 {
		t.Fatalf("README.md has %d blocks, or they are too long", len(blocks))
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
	write("decode/main.go", head+string(blocks[0][1])+"}\n")
	write("train/main.go", head+string(blocks[1][1])+"}\n")
	for _, program := range []string{"train", "decode"} { // decode loads what train saved
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
