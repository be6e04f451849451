package sed

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

func TestScriptsHaveBounds(t *testing.T) {
	_, err := parse(strings.Repeat("p\n", maxScript), false)
	require.ErrorIs(t, err, files.ErrBound)
	_, err = parse(strings.Repeat("p;", maxCommands+1), false)
	require.ErrorIs(t, err, files.ErrBound)
	_, err = parse("s/a/b/e", false)
	require.ErrorContains(t, err, "not replayed")
}

// FuzzScripts looks for scripts that crash the parser or the editor.
func FuzzScripts(f *testing.F) {
	for _, s := range []string{
		"s/a/b/g;p", ":a;N;$!ba;s/\\n/ /g", "1,/x/{s//y/;t end\nd};:end", "0,/a/I!d", "a\\\ntext\\\nmore",
		"1~2c x", "y/abc/xyz/",
		"/[]/]/s,[,],\\U&\\E,2gp", "$!{h;d};x;G;D", "2q5", "w out\nr in", "s/\\(a\\)\\1/\\1/w /dev/stdout",
		"l 3;=;F;z;#c", "\\,x,,+3P",
		"s/a\\{2,3\\}/\\x41\\d065\\o101\\cA/", "}", "{", "b x",
	} {
		f.Add(s, "aab\nxa\n", false)
		f.Add(s, "aab\nx", true)
	}
	f.Fuzz(func(t *testing.T, script, input string, extended bool) {
		args := []string{"-e", script}
		if extended {
			args = append(args, "-E")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		c := &command.Call{Name: "sed", Args: args, Dir: "/", Stdin: strings.NewReader(input), Stdout: io.Discard,
			Stderr: io.Discard, Files: files.New(tree.New())}
		_, _ = Command()(ctx, c)
	})
}
