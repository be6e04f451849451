package images

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// program is containerd's own client.
const program = "/usr/bin/ctr"

// Run runs ctr.
func Run(ctx context.Context, args ...string) ([]byte, error) {
	var out, problem bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problem.String()))
	}
	return out.Bytes(), nil
}
