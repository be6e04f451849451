package awk

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/tree"
)

func TestRewriteChangesOnlyWhatTheLibraryMustNotDo(t *testing.T) {
	for program, want := range map[string]string{
		`{ print FILENAME, "FILENAME" } # FILENAME`: `{ print spore_filename(), "FILENAME" } # FILENAME`,
		`$1 ~ /FILENAME/ { x = a / FILENAME / 2 }`:  `$1 ~ /FILENAME/ { x = a / spore_filename() / 2 }`,
		`/[/]/`:                           `/[\/]/`,
		`{ if (a > "/dev/stderr") b }`:    `{ if (a > "/dev/stderr") b }`,
		`{ print a > "/dev/stderr" }`:     `{ { spore_stderr(1); print a ; spore_stderr(0) } }`,
		`{ print a | "cat >&2" }`:         `{ { spore_stderr(1); print a ; spore_stderr(0) } }`,
		`{ print a >> "/dev/stdout" }`:    `{ print a  }`,
		`{ print ENVIRON["A"] }`:          `{ print ENVIRON["A"] }`,
		`{ print ENVIRON[x[1]] }`:         `{ print spore_environ(x[1]) }`,
		`{ print "\"> \"/dev/stderr\"" }`: `{ print "\"> \"/dev/stderr\"" }`,
	} {
		out, _, err := rewrite(program)
		require.NoError(t, err, program)
		require.Equal(t, want, out)
	}
	_, names, err := rewrite(`BEGIN { print ENVIRON["A"] ENVIRON [ "B" ] }`)
	require.NoError(t, err)
	require.Equal(t, []string{"A", "B"}, names)
}

// FuzzPrograms looks for programs that crash the rewriting or the library, or that reach a file.
func FuzzPrograms(f *testing.F) {
	for _, s := range []string{
		`{ print FILENAME > "/dev/stderr" }`, `BEGIN { print ENVIRON[ENVIRON["X"]] }`,
		`/[/]/ { print $1 / 2 } # "`, `ENVIRON[`,
		`{ print | "cat 1>&2" ; } END { print NR }`, `BEGIN { while ((getline x) > 0) n++; exit n }`,
		`print > "/dev/stderr"`, `"`, `/`,
	} {
		f.Add(s, "a b\nc\n")
	}
	f.Fuzz(func(t *testing.T, program, input string) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		c := &command.Call{Name: "awk", Args: []string{"--", program}, Dir: "/",
			Env:   func(string) string { return "v" },
			Stdin: strings.NewReader(input), Stdout: io.Discard, Stderr: io.Discard, Files: files.New(tree.New())}
		_, _ = Command()(ctx, c)
	})
}

func TestArraysAreWalkedInOrder(t *testing.T) {
	for program, want := range map[string]string{
		`BEGIN { for (i = 0; i < 12; i++) a[i]; a["x"]; a["b"]; for (k in a) printf k " " }`:                  "0 1 2 3 4 5 6 7 8 9 10 11 b x ",
		`BEGIN { a["y"] = "u"; a["x"] = "v"; for (k in a) for (l in a) printf "%s%s ", k, l }`:                "xx xy yx yy ",
		`function f(x) { for (k in x) n = n k; return n } BEGIN { a["q"]; a["p"]; a[""]; printf "%s", f(a) }`: "pq",
		`function f() { for (k in g) { printf k; for (l in g) printf l } } BEGIN { g["b"]; g["a"]; f() }`:     "aabbab",
		`function f(d, k) { if (d) for (k in g) { printf "%s%d ", k, d; f(d - 1) } }
		BEGIN { g["b"]; g["a"]; f(2) }`: "a2 a1 b1 b2 a1 b1 ",
		`BEGIN { a[1]; a[2]; a[3]; for (k in a) { if (k == 2) break; printf k } for (k in a) delete a[k]
		printf "%d", length(a) }`: "10",
		`BEGIN { for (k in none) printf k; if ("k" in none) printf "!"; print "." }`: ".\n",
	} {
		var out strings.Builder
		c := &command.Call{Name: "awk", Args: []string{program}, Dir: "/", Env: func(string) string { return "" },
			Stdout: &out, Stderr: io.Discard, Files: files.New(tree.New())}
		status, err := Command()(t.Context(), c)
		require.NoError(t, err, program)
		require.Zero(t, status, program)
		require.Equal(t, want, out.String(), program)
	}
}
