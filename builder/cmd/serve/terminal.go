package serve

import (
	"bufio"
	"context"
	"io"
	"strings"

	"spore/builder/netboot"
)

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
		t.list(t.server.State())
	case words[0] == "approve" && len(words) == 2:
		err = t.server.Approve(ctx, words[1], nil)
	case words[0] == "deny" && len(words) == 2:
		err = t.server.Deny(words[1])
	default:
		t.say("list                  the machines that asked\napprove FINGERPRINT   let the machine that shows it have its node's secrets\ndeny FINGERPRINT      refuse it\nCtrl-C                end")
	}
	if err != nil {
		t.say("%v", err)
	}
}

func (t *terminal) list(s netboot.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	Print(t.w, s)
}
