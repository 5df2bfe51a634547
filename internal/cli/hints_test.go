package cli

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"bourn"
)

// TestErrorsNameTheNextStep reads the program: every error that is made with a code of
// package bourn is given a hint in the same function, at once or by the name that it gets
// there. Usage errors have that of their command.
func TestErrorsNameTheNextStep(t *testing.T) {
	made := 0
	for _, dir := range []string{".", "../run", "../launch"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files := token.NewFileSet()
		var all []*ast.FuncDecl
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(files, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok {
					all = append(all, f)
				}
			}
		}
		hinting := hinters(all)
		for _, f := range all {
			n, without := unhinted(f, hinting)
			made += n
			for _, pos := range without {
				t.Errorf("%s: an error without a hint", files.Position(pos))
			}
		}
	}
	if made < 40 {
		t.Errorf("only %d errors are found: the test does not read what it should", made)
	}
}

// TestUnhinted shows what the reading above finds.
func TestUnhinted(t *testing.T) {
	for _, tt := range []struct {
		body string
		want int
	}{
		{`return fmt.Errorf("%w: a", bourn.ErrInvalid)`, 1},
		{`return bourn.WithHint(fmt.Errorf("%w: a", bourn.ErrInvalid), "b")`, 0},
		{`err := fmt.Errorf("%w: a", bourn.ErrInvalid); return bourn.WithHint(err, "b")`, 0},
		{`err := fmt.Errorf("%w: a", bourn.ErrInvalid); return err`, 1},
		{`return bourn.WithHint(fmt.Errorf("%w: a", bourn.ErrInvalid), "")`, 1},
		{`return errors.Is(err, bourn.ErrInvalid)`, 0},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\nfunc f() {"+tt.body+"}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, without := unhinted(file.Decls[0].(*ast.FuncDecl), hinters(nil)); len(without) != tt.want {
			t.Errorf("%s: %d errors without a hint, not %d", tt.body, len(without), tt.want)
		}
	}
}

// hinters are the functions that give the error in their only argument a hint.
func hinters(all []*ast.FuncDecl) map[string]bool {
	names := map[string]bool{"usage": true} // of which complain says the hint
	for _, f := range all {
		if p := f.Type.Params.List; len(p) == 1 && len(p[0].Names) == 1 && fmt.Sprint(p[0].Type) == "error" && len(f.Body.List) == 1 {
			if r, ok := f.Body.List[0].(*ast.ReturnStmt); ok && len(r.Results) == 1 {
				if call, ok := r.Results[0].(*ast.CallExpr); ok && called(call) == "WithHint" {
					names[f.Name.Name] = true
				}
			}
		}
	}
	return names
}

// unhinted counts the errors with a code that a function makes, and returns those that get
// no hint.
func unhinted(f *ast.FuncDecl, hinters map[string]bool) (made int, without []token.Pos) {
	if hinters[f.Name.Name] {
		return 0, nil
	}
	hinted := map[ast.Node]bool{} // what is given a hint
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if id, ok := call.Fun.(*ast.Ident); ok && hinters[id.Name] && len(call.Args) == 1 {
			hinted[call.Args[0]] = true
		}
		if called(call) != "WithHint" || len(call.Args) != 2 {
			return true
		}
		if lit, ok := call.Args[1].(*ast.BasicLit); ok && lit.Value == `""` {
			return true
		}
		hinted[call.Args[0]] = true
		if id, ok := call.Args[0].(*ast.Ident); ok {
			names[id.Name] = true
		}
		return true
	})
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if len(n.Lhs) == 1 && len(n.Rhs) == 1 {
				if id, ok := n.Lhs[0].(*ast.Ident); ok && names[id.Name] {
					hinted[n.Rhs[0]] = true
				}
			}
		case *ast.CallExpr:
			if makesError(n) {
				made++
				if !hinted[n] {
					without = append(without, n.Pos())
				}
			}
		}
		return true
	})
	return made, without
}

// makesError reports whether a call makes an error of a sentinel of package bourn.
func makesError(call *ast.CallExpr) bool {
	if name := called(call); name != "Errorf" && name != "Join" {
		return false
	}
	for _, arg := range call.Args {
		if s, ok := arg.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Err") && fmt.Sprint(s.X) == "bourn" {
			return true
		}
	}
	return false
}

func called(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}

// TestEveryErrorHasAHint sees that what comes from elsewhere, without one, gets one too.
func TestEveryErrorHasAHint(t *testing.T) {
	cmd := (&app{}).root()
	for _, err := range []error{bourn.ErrInvalid, bourn.ErrDenied, bourn.ErrParked, bourn.ErrNotFound, bourn.ErrConflict,
		bourn.ErrWeakHost, bourn.ErrUnavailable, bourn.ErrInternal, errors.New("unknown command"), errors.New("anything")} {
		if hint(cmd, err) == "" {
			t.Errorf("%v has no hint", err)
		}
	}
}
