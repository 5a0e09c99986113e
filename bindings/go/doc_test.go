package dllm

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// hasText reports whether one of the comments has a text.
func hasText(groups ...*ast.CommentGroup) bool {
	for _, group := range groups {
		if len(strings.TrimSpace(group.Text())) > 0 {
			return true
		}
	}
	return false
}

// receiver is the name of the type of a method; "" of a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	kind := f.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	if generic, ok := kind.(*ast.IndexExpr); ok {
		kind = generic.X
	}
	return kind.(*ast.Ident).Name
}

// undocumented lists the exported identifiers of a declaration that have no comment.
func undocumented(declaration ast.Decl) (names []string) {
	look := func(name string, groups ...*ast.CommentGroup) {
		if ast.IsExported(name) && !hasText(groups...) {
			names = append(names, name)
		}
	}
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if of := receiver(d); of == "" || ast.IsExported(of) {
			look(d.Name.Name, d.Doc)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					look(name.Name, d.Doc, s.Doc, s.Comment)
				}
			case *ast.TypeSpec:
				look(s.Name.Name, d.Doc, s.Doc)
				of, ok := s.Type.(*ast.StructType)
				if !ok || !s.Name.IsExported() {
					continue
				}
				for _, field := range of.Fields.List {
					for _, name := range field.Names {
						look(name.Name, field.Doc, field.Comment)
					}
				}
			}
		}
	}
	return names
}

// Every exported function, method, type, constant, variable and field has a comment, which go doc shows.
func TestEveryExportedIdentifierHasAComment(t *testing.T) {
	files := token.NewFileSet()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, entry.Name(), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			looked++
			for _, name := range undocumented(declaration) {
				t.Errorf("%s: %s has no comment", files.Position(declaration.Pos()), name)
			}
		}
	}
	if looked < 500 {
		t.Errorf("only %d declarations were found", looked)
	}
}
