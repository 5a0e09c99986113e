package dllm

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nouns are the exported types that have a handle.
func nouns(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, is := node.(*ast.TypeSpec)
			if !is {
				return true
			}
			if body, is := spec.Type.(*ast.StructType); is && embeds(body, "resource") {
				found = append(found, spec.Name.Name)
			}
			return false
		})
	}
	return found
}

func embeds(body *ast.StructType, name string) bool {
	for _, field := range body.Fields.List {
		if held, is := field.Type.(*ast.Ident); is && len(field.Names) == 0 && held.Name == name {
			return true
		}
	}
	return false
}

// A copy of a noun shares its object, which is closed with the first of the two. go vet has to refuse each.
func TestGoVetRefusesCopies(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go to vet with")
	}
	all := nouns(t)
	if len(all) < 12 {
		t.Fatalf("only %v have a handle", all)
	}
	text := "package dllm\n\n"
	for _, noun := range all {
		text += fmt.Sprintf("func copy%s(given *%s) *%s {\n\tmade := *given\n\treturn &made\n}\n\n", noun, noun, noun)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(t.TempDir(), "copies.go")
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "copies.go"): written}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{written: text, overlay: string(replaced)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said, err := exec.Command(tool, "vet", "-copylocks", "-overlay="+overlay, ".").CombinedOutput()
	if err == nil {
		t.Fatalf("go vet accepts copies of all nouns: %s", said)
	}
	for _, noun := range all {
		if !strings.Contains(string(said), "dllm."+noun+" contains") && !strings.Contains(string(said), noun+" contains") {
			t.Errorf("go vet accepts a copy of a %s:\n%s", noun, said)
		}
	}
}
