package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"spore/agent/images"
	"spore/agent/node"
)

// ctr is containerd's own client.
const ctr = "/usr/bin/ctr"

// imagesCommand takes the container images of the root into containerd.
func imagesCommand(ctx context.Context, m *node.Machine) error {
	run := func(ctx context.Context, args ...string) ([]byte, error) {
		var out, problem bytes.Buffer
		cmd := exec.CommandContext(ctx, ctr, args...)
		cmd.Stdout, cmd.Stderr = &out, &problem
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problem.String()))
		}
		return out.Bytes(), nil
	}
	return images.Import(ctx, m.Root.At(images.Dir), run, m.Say)
}
