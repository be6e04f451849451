package serve

import (
	"bufio"
	"context"
	"io"
	"strings"
)

const help = `list                  the machines that asked
approve FINGERPRINT   let the machine that shows it have its node's secrets
deny FINGERPRINT      refuse it
Ctrl-C                end
`

// read does what is typed, one line after the other. Nothing reads the terminal meanwhile, so that a passphrase can be asked for.
func (t *terminal) read(ctx context.Context, in io.Reader) {
	lines := bufio.NewScanner(in)
	for ctx.Err() == nil && lines.Scan() {
		t.do(ctx, strings.Fields(lines.Text()))
	}
}

func (t *terminal) do(ctx context.Context, words []string) {
	var err error
	switch {
	case len(words) == 0:
	case words[0] == "list" && len(words) == 1:
		t.print(func(w io.Writer) { Print(w, t.server.State()) })
	case words[0] == "approve" && len(words) == 2:
		err = t.server.Approve(ctx, words[1], nil)
	case words[0] == "deny" && len(words) == 2:
		err = t.server.Deny(words[1])
	default:
		t.print(func(w io.Writer) { _, _ = io.WriteString(w, help) })
	}
	if err != nil {
		t.say("%v", err)
	}
}

// print writes what has no time of its own.
func (t *terminal) print(what func(w io.Writer)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	what(t.w)
}
